#pragma once

#include <array>
#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// The residual networks for ImageNet. Version 1 is that of He et al., "Deep Residual Learning for Image Recognition"
/// (CVPR 2016): a 7x7 convolution and max pooling, four stages of blocks, each with half the image size and twice the
/// channels of the previous one, global average pooling and a layer of classes. Up to depth 34 a block is two 3x3
/// convolutions; from 50 on it is a bottleneck of 1x1, 3x3 and 1x1, of which the last has four times the channels. A
/// shortcut is a 1x1 convolution where the extents change. Bottlenecks halve the image in the 3x3 convolution, as most
/// implementations do, not in the first 1x1; the numbers of parameters are the paper's either way (25,557,032 at depth
/// 50 with 1000 classes).
///
/// Version 2 is that of He et al., "Identity Mappings in Deep Residual Networks" (ECCV 2016): normalisation and ReLU
/// come before each convolution and not after it, so that a shortcut passes its input on unchanged. The first block's
/// shortcut must not pass on what conv1 gives, which nothing has normalised: at depths 18 and 34 the normalisation and
/// ReLU of this block come right after conv1, as in the paper's appendix, before the pooling and before branch and
/// shortcut part. From 50 on they come after the pooling, and this block's shortcut is a projection of what they give.
///
/// With `small_images` the first convolution is 3x3 and does not halve the image, and there is no pooling.
struct ResNet {
  static constexpr std::string_view type_name = "resnet";
  static constexpr std::string_view summary =
      "residual networks for ImageNet at depths 18 to 152; 25,557,032 parameters at depth 50 with 1000 classes";

  struct Options {
    std::int64_t depth = 18;
    std::int64_t version = 1;
    bool small_images = false;
    bool zero_residual = true;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .choice("depth", &Options::depth, {18, 34, 50, 101, 152}, "layers with weights")
        .choice("version", &Options::version, {1, 2}, "2: normalisation and ReLU before each convolution, not after")
        .flag("small_images", &Options::small_images, "begins with a 3x3 convolution and without pooling")
        .flag("zero_residual", &Options::zero_residual,
              "version 1: the last normalisation of a block begins at zero, so that each block begins as its shortcut");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = net.images();
    if (options.small_images) {
      x = convolution(net, "conv1", x, 64, 3, 1);
    } else {
      x = convolution(net, "conv1", x, 64, 7, 2);
    }
    const bool first = options.version == 1;
    const bool bottleneck = options.depth >= 50;
    const bool activates = !first && !bottleneck;
    if (first) x = net.relu(net.batch_norm("bn1", x));
    if (activates) x = net.relu(net.batch_norm("layer1.0.bn1", x));
    if (!options.small_images) x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    const auto blocks = blocks_of(options.depth);
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      for (int i = 0; i < blocks[stage]; ++i) {
        const Block block{"layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".",
                          std::int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1, bottleneck,
                          activates && stage == 0 && i == 0};
        x = first ? block.version1(net, x, options.zero_residual) : block.version2(net, x);
      }
    }
    if (!first) x = net.relu(net.batch_norm("bn_last", x));
    return net.finish(net.linear("fc", net.global_average(x), {.features = shape.classes}));
  }

 private:
  using Value = NetworkBuilder::Value;

  static std::array<int, 4> blocks_of(std::int64_t depth) {
    switch (depth) {
      case 18: return {2, 2, 2, 2};
      case 101: return {3, 4, 23, 3};
      case 152: return {3, 8, 36, 3};
      default: return {3, 4, 6, 3};
    }
  }

  static Value convolution(NetworkBuilder& net, const std::string& name, Value x, std::int64_t channels,
                           std::int64_t kernel, std::int64_t stride) {
    return net.convolution(name, x,
                           {.channels = channels,
                            .kernel = kernel,
                            .stride = stride,
                            .padding = kernel / 2,
                            .bias = false,
                            .weights = {.draw = Weights::Draw::he_out}});
  }

  struct Block {
    std::string name;
    std::int64_t channels;
    std::int64_t stride;
    bool bottleneck;
    bool activated;  ///< version 2: the first normalisation and ReLU are done

    std::int64_t channels_out() const { return bottleneck ? 4 * channels : channels; }
    bool keeps_extents(NetworkBuilder& net, Value x) const { return stride == 1 && net.channels(x) == channels_out(); }
    int convolutions() const { return bottleneck ? 3 : 2; }

    /// The convolution with that number, from 1 on. The first 3x3 of a block has its stride.
    Value convolved(NetworkBuilder& net, Value x, int number) const {
      const bool wide = !bottleneck || number == 2;
      const bool strides = number == (bottleneck ? 2 : 1);
      return convolution(net, name + "conv" + std::to_string(number), x, number == 3 ? channels_out() : channels,
                         wide ? 3 : 1, strides ? stride : 1);
    }
    Value projected(NetworkBuilder& net, Value x) const {
      return convolution(net, name + "downsample.0", x, channels_out(), 1, stride);
    }
    std::string norm(int number) const { return name + "bn" + std::to_string(number); }

    Value version1(NetworkBuilder& net, Value x, bool zero_residual) const {
      auto branch = x;
      for (int number = 1; number < convolutions(); ++number) {
        branch = net.relu(net.batch_norm(norm(number), convolved(net, branch, number)));
      }
      const auto last = convolutions();
      branch = net.batch_norm(norm(last), convolved(net, branch, last), {.zero = zero_residual});
      if (!keeps_extents(net, x)) x = net.batch_norm(name + "downsample.1", projected(net, x));
      return net.relu(net.add(branch, x));
    }

    Value version2(NetworkBuilder& net, Value x) const {
      const auto begun = activated ? x : net.relu(net.batch_norm(norm(1), x));
      auto branch = convolved(net, begun, 1);
      for (int number = 2; number <= convolutions(); ++number) {
        branch = convolved(net, net.relu(net.batch_norm(norm(number), branch)), number);
      }
      return net.add(branch, keeps_extents(net, x) ? x : projected(net, begun));
    }
  };
};

}  // namespace weir::training
