#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "base/result.hpp"
#include "protocol/params.hpp"
#include "protocol/training_shape.hpp"
#include "training/datasets/shape.hpp"

namespace weir::training {

class Model;

/// The residual network for small images of He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016),
/// section 4.2, with 6 n + 2 layers: a 3x3 convolution, three stages of n blocks of two 3x3 convolutions each (the
/// second and third stage with half the image size and twice the channels of the previous one), global average pooling,
/// and a layer of classes. Shortcuts have no parameters (option A of the paper): where the size changes they take every
/// other pixel, and the new channels are zero. Batch normalisation follows every convolution, which has no bias. At
/// depth 20 and width 16 it has 269,722 parameters on images of three channels with 10 classes.
///
/// Convolutions are initialised as in He et al., ICCV 2015 (normal, variance 2 over the inputs of one output). The
/// running statistics of the batch normalisation are buffers: each rank has its own, from its own batches; evaluation
/// uses those of rank 0.
struct ResNet {
  static constexpr std::string_view type_name = "resnet20";
  static constexpr std::string_view summary =
      "residual network for small images, three stages with batch normalisation; 269,434 parameters on 28 x 28 x 1";

  struct Options {
    std::int64_t depth = 20;
    std::int64_t width = 16;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .choice("depth", &Options::depth, {8, 14, 20, 26, 32, 38, 44, 50, 56, 110},
                "layers with weights: 6 n + 2, with n blocks in each stage")
        .integer("width", &Options::width, {.minimum = 1, .maximum = 256},
                 "channels of the first stage; the second has twice, the third four times as many");
  }
  static Result<std::vector<protocol::ParameterShape>> parameters(Options options, const ExampleShape& shape) {
    if (shape.height < extent_min || shape.width < extent_min) {
      return Error{Errc::invalid_argument, "model resnet20 needs images of 8 x 8 or more"};
    }
    std::vector<protocol::ParameterShape> list;
    const auto add = [&list](const std::string& convolution, const std::string& norm, std::int64_t from,
                             std::int64_t to) {
      list.push_back({convolution + ".weight", {to, from, 3, 3}});
      list.push_back({norm + ".weight", {to}});
      list.push_back({norm + ".bias", {to}});
    };
    std::int64_t channels = options.width;
    add("conv", "norm", shape.channels, channels);
    const std::int64_t blocks = (options.depth - 2) / (2 * stages);
    for (std::int64_t block = 0; block < stages * blocks; ++block) {
      const std::string name = "blocks." + std::to_string(block) + ".";
      const auto from = channels;
      if (block > 0 && block % blocks == 0) channels *= 2;
      add(name + "conv1", name + "norm1", from, channels);
      add(name + "conv2", name + "norm2", channels, channels);
    }
    list.push_back({"fc.weight", {shape.classes, channels}});
    list.push_back({"fc.bias", {shape.classes}});
    return list;
  }
  static Result<std::unique_ptr<Model>> make(Options options, const ExampleShape& shape);

  static constexpr std::int64_t stages = 3;
  /// With this size the last stage has 2 x 2 pixels: batch normalisation needs more than one value per channel.
  static constexpr std::int64_t extent_min = 8;
};

}  // namespace weir::training
