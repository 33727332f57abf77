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

/// LeNet in the size that Caffe and the gradient compression papers use: two 5x5 convolutions of 20 and 50 channels,
/// each with 2x2 max pooling and ReLU, a layer of 500 with ReLU, and a layer of classes. 431,080 parameters on 28 x 28
/// images with 10 classes. (Caffe has no ReLU after the pooling; without it the usual rate of 0.05 with momentum 0.9
/// diverges.)
struct LeNet {
  static constexpr std::string_view type_name = "lenet";
  static constexpr std::string_view summary =
      "two convolutions of 20 and 50 channels, layers of 500 and 10; 431,080 parameters";

  static Result<std::vector<protocol::ParameterShape>> parameters(protocol::NoOptions, const ExampleShape& shape) {
    const auto height = reduced(reduced(shape.height));
    const auto width = reduced(reduced(shape.width));
    if (height < 1 || width < 1) return Error{Errc::invalid_argument, "model lenet needs images of 16 x 16 or more"};
    return std::vector<protocol::ParameterShape>{{"conv1.weight", {20, shape.channels, 5, 5}},
                                                 {"conv1.bias", {20}},
                                                 {"conv2.weight", {50, 20, 5, 5}},
                                                 {"conv2.bias", {50}},
                                                 {"fc1.weight", {500, 50 * height * width}},
                                                 {"fc1.bias", {500}},
                                                 {"fc2.weight", {shape.classes, 500}},
                                                 {"fc2.bias", {shape.classes}}};
  }
  static Result<std::unique_ptr<Model>> make(protocol::NoOptions options, const ExampleShape& shape);

  /// The size of a dimension after one convolution and one pooling.
  static constexpr std::int64_t reduced(std::int64_t extent) { return (extent - 4) / 2; }
};

}  // namespace weir::training
