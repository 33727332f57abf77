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

/// Examples of one's own, as tensors of a safetensors file: train_inputs, train_classes, test_inputs and test_classes
/// (read_arrays). The training examples and those for testing keep two of them each in memory, and nothing else.
struct ArraysDataset {
  static constexpr std::string_view type_name = "arrays";
  static constexpr std::string_view summary = "examples of your own, as four tensors of a safetensors file";
  static constexpr bool needs_path = true;
  static constexpr std::uint64_t file_bytes_max = std::uint64_t{16} << 30;

  struct Options {
    Augmentation augmentation;
    std::int64_t channels = 1;
    std::int64_t height = 28;
    std::int64_t width = 28;
    std::int64_t classes = 10;
    double mean = 0;
    double deviation = 1;
  };
  static protocol::Params<Options> params() {
    return augmentation_params<Options>()
        .integer("channels", &Options::channels, {.minimum = 1, .maximum = 4096}, "Colours of an image.")
        .integer("height", &Options::height, {.minimum = 1, .maximum = 65536}, "Rows of pixels of an image.")
        .integer("width", &Options::width, {.minimum = 1, .maximum = 65536}, "Pixels of a row.")
        .integer("classes", &Options::classes, {.minimum = 2, .maximum = classes_max}, "Classes to tell apart.")
        .number("mean", &Options::mean, {}, "Is subtracted from inputs; bytes are divided by 255 before.")
        .number("deviation", &Options::deviation, {.exclusive_minimum = 0}, "Then they are divided by this.");
  }
  static DatasetShape shape(const Options& options, std::string_view) {
    return {{options.channels, options.height, options.width, options.classes}, std::nullopt};
  }
  /// `path` is the file.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
