#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "training/datasets/augmentation.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Dataset;

/// CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32 x 32, ten kinds of animals and vehicles; from the
/// six files of its binary version.
struct Cifar10 {
  static constexpr std::string_view type_name = "cifar10";
  static constexpr std::string_view summary = "50,000 + 10,000 colour images of things, 32 x 32, 10 classes";
  static constexpr bool needs_path = true;

  struct Options {
    Augmentation augmentation;
  };
  static protocol::Params<Options> params() { return augmentation_params<Options>(); }
  static DatasetShape shape(const Options&, std::string_view) { return {{3, 32, 32, 10}, 50'000}; }
  /// `path` is the folder of the files, or that in which the archive was unpacked.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

/// CIFAR-100 (Krizhevsky 2009): as CIFAR-10, with a hundred fine classes that belong to twenty coarse ones; from the
/// two files of its binary version.
struct Cifar100 {
  static constexpr std::string_view type_name = "cifar100";
  static constexpr std::string_view summary = "50,000 + 10,000 colour images of things, 32 x 32, 100 or 20 classes";
  static constexpr bool needs_path = true;

  struct Options {
    Augmentation augmentation;
    std::string labels = "fine";
  };
  static protocol::Params<Options> params() {
    return augmentation_params<Options>().choice("labels", &Options::labels, {"fine", "coarse"},
                                                 "The hundred classes, or the twenty that they belong to.");
  }
  static DatasetShape shape(const Options& options, std::string_view) {
    return {{3, 32, 32, options.labels == "fine" ? 100 : 20}, 50'000};
  }
  /// `path` is the folder of the files, or that in which the archive was unpacked.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
