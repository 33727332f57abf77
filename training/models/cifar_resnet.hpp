#pragma once

#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

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
struct CifarResNet {
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

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    // With this size the last stage has 2 x 2 pixels: batch normalisation needs more than one value per channel.
    if (shape.tokens == 0 && (shape.height < 8 || shape.width < 8)) net.refuse("needs images of 8 x 8 or more");
    auto x = net.relu(convolved(net, "conv", "norm", net.images(), {.channels = options.width}, 0));
    const auto blocks = (options.depth - 2) / 6;
    for (std::int64_t block = 0; block < 3 * blocks; ++block) {
      const auto name = "blocks." + std::to_string(block) + ".";
      const auto channels = options.width << (block / blocks);
      const bool halves = block > 0 && block % blocks == 0;
      auto branch = convolved(net, name + "conv1", name + "norm1", x, {.channels = channels, .stride = halves ? 2 : 1});
      branch = convolved(net, name + "conv2", name + "norm2", net.relu(branch), {.channels = channels});
      x = net.relu(net.add(branch, halves ? net.halved_shortcut(x, channels) : x));
    }
    return net.finish(net.linear("fc", net.global_average(x), {.features = shape.classes}));
  }

 private:
  /// A 3x3 convolution and its normalisation. The blocks are drawn after what is around them: a seed has always given
  /// the same network.
  static NetworkBuilder::Value convolved(NetworkBuilder& net, const std::string& convolution, const std::string& norm,
                                         NetworkBuilder::Value x, layers::Convolution layer, int turn = 1) {
    layer.kernel = 3;
    layer.padding = 1;
    layer.bias = false;
    layer.weights = {.draw = Weights::Draw::he_in, .over_standard = true, .turn = turn};
    return net.batch_norm(norm, net.convolution(convolution, x, layer));
  }
};

}  // namespace weir::training
