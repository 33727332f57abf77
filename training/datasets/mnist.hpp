#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "training/datasets/augmentation.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Dataset;

/// MNIST (LeCun, Cortes, Burges 1998): 60,000 + 10,000 grey images of 28 x 28, handwritten digits; from the four idx
/// files of its authors, gzipped or not.
struct Mnist {
  static constexpr std::string_view type_name = "mnist";
  static constexpr std::string_view summary = "60,000 + 10,000 grey images of digits, 28 x 28, 10 classes";
  static constexpr bool needs_path = true;

  struct Options {
    Augmentation augmentation;
  };
  static protocol::Params<Options> params() { return augmentation_params<Options>(); }

  /// The files may hold another number of examples than the 60,000.
  static DatasetShape shape(const Options&, std::string_view) { return {{1, 28, 28, 10}, std::nullopt}; }
  /// `path` is the folder of the files.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
