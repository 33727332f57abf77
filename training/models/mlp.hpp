#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "base/result.hpp"
#include "protocol/params.hpp"
#include "protocol/training_shape.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Model;

/// One hidden layer with ReLU between flattened images and classes: the smallest network that learns something.
struct Mlp {
  static constexpr std::string_view type_name = "mlp";
  static constexpr std::string_view summary = "one hidden layer; small, for trying things";

  struct Options {
    std::int64_t hidden = 64;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>().integer("hidden", &Options::hidden, {.minimum = 1, .maximum = 65536},
                                               "width of the hidden layer");
  }
  static Result<std::vector<protocol::ParameterShape>> parameters(Options options, const ExampleShape& shape) {
    const std::int64_t hidden = options.hidden;
    return std::vector<protocol::ParameterShape>{{"fc1.weight", {hidden, shape.channels * shape.height * shape.width}},
                                                 {"fc1.bias", {hidden}},
                                                 {"fc2.weight", {shape.classes, hidden}},
                                                 {"fc2.bias", {shape.classes}}};
  }
  static Result<std::unique_ptr<Model>> make(Options options, const ExampleShape& shape);
};

}  // namespace weir::training
