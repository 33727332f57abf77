#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "protocol/params.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Dataset;

/// Generated images: each class is a random pattern, and each example its class's pattern with noise. The same
/// parameters give the same images on every machine. For tests, and for trying things where no data is installed.
struct Synthetic {
  static constexpr std::string_view type_name = "synthetic";
  static constexpr std::string_view summary = "noisy patterns made up on the spot, the same everywhere; needs no files";
  static constexpr bool needs_path = false;
  static constexpr bool has_files = false;
  static constexpr std::int64_t bytes_max = std::int64_t{4} << 30;

  struct Options {
    std::int64_t channels = 1;
    std::int64_t height = 28;
    std::int64_t width = 28;
    std::int64_t classes = 10;
    std::int64_t train_examples = 4096;
    std::int64_t test_examples = 1024;
    double noise = 0.5;
    std::int64_t seed = 1;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .integer("channels", &Options::channels, {.minimum = 1, .maximum = 64}, "colours")
        .integer("height", &Options::height, {.minimum = 1, .maximum = 512}, "pixels")
        .integer("width", &Options::width, {.minimum = 1, .maximum = 512}, "pixels")
        .integer("classes", &Options::classes, {.minimum = 2, .maximum = classes_max}, "patterns to tell apart")
        .integer("train_examples", &Options::train_examples, {.minimum = 1, .maximum = 1'000'000},
                 "examples to learn from")
        .integer("test_examples", &Options::test_examples, {.minimum = 1, .maximum = 1'000'000},
                 "examples to be tested on")
        .number("noise", &Options::noise, {.minimum = 0, .maximum = 1}, "share of each pixel that is noise")
        .integer("seed", &Options::seed, {.minimum = 0, .maximum = INT64_MAX}, "other seeds give other patterns")
        .product_at_most({"channels", "height", "width", "classes"}, bytes_max, "bytes of patterns")
        .product_at_most({"channels", "height", "width", "train_examples"}, bytes_max, "bytes of images")
        .product_at_most({"channels", "height", "width", "test_examples"}, bytes_max, "bytes of images");
  }
  static DatasetShape shape(const Options& options, std::string_view) {
    return {{options.channels, options.height, options.width, options.classes},
            static_cast<std::uint64_t>(options.train_examples)};
  }
  /// `path` must be empty: there are no files. Fails with: invalid_argument.
  static Result<std::unique_ptr<Dataset>> make(const Options& options, const std::string& path);
};

}  // namespace weir::training
