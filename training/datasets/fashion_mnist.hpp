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

/// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28 x 28, ten kinds of clothes;
/// from the four idx files of its authors, gzipped as Debian's dataset-fashion-mnist installs them, or not.
struct FashionMnist {
  static constexpr std::string_view type_name = "fashion-mnist";
  static constexpr std::string_view summary = "60,000 + 10,000 grey images of clothes, 28 x 28, 10 classes";
  static constexpr bool needs_path = false;

  struct Options {
    Augmentation augmentation;
  };
  static protocol::Params<Options> params() { return augmentation_params<Options>(); }

  /// With a `path`, the files may hold another number of examples.
  static DatasetShape shape(const Options&, std::string_view path) {
    return {{1, 28, 28, 10}, path.empty() ? std::optional<std::uint64_t>(60'000) : std::nullopt};
  }
  /// `path` is the folder of the files; empty means Debian's.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
