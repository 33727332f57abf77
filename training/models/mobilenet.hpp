#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// Networks of depthwise convolutions, which look at each channel by itself, and 1x1 convolutions, which mix channels.
///
/// Version 1 is that of Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
/// Applications" (2017): thirteen such pairs after one full convolution. Version 2 is that of Sandler et al.,
/// "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (CVPR 2018): seventeen blocks that widen their input by a
/// 1x1 convolution, convolve it depthwise and narrow it again, around a shortcut where the extents allow. With 1000
/// classes 4,231,976 and 3,504,872 parameters. All convolutions have batch normalisation and no bias.
///
/// With `small_images` the first two layers that would halve the image do not.
struct MobileNet {
  static constexpr std::string_view type_name = "mobilenet";
  static constexpr std::string_view summary =
      "depthwise convolutions, versions 1 and 2; 4,231,976 and 3,504,872 parameters with 1000 classes";

  struct Options {
    std::int64_t version = 2;
    double width = 1;
    bool small_images = false;
    double dropout = 0.2;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .choice("version", &Options::version, {1, 2}, "1: pairs of convolutions; 2: inverted residual blocks")
        .number("width", &Options::width, {.exclusive_minimum = 0, .maximum = 4},
                "what the channels of all layers are multiplied by; the products are rounded to multiples of 8")
        .flag("small_images", &Options::small_images, "the first two layers that would halve the image do not")
        .number("dropout", &Options::dropout, {.minimum = 0, .exclusive_maximum = 1},
                "share of the inputs of the layer of classes that is left out in training");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    Writer writer{net, options.small_images ? 2 : 0, options.version == 1};
    const auto x = options.version == 1 ? version1(writer, options.width) : version2(net, writer, options.width);
    const auto features = net.dropout(net.global_average(x), options.dropout);
    return net.finish(net.linear(
        "fc", features, {.features = shape.classes, .weights = {.draw = Weights::Draw::normal, .deviation = 0.01}}));
  }

 private:
  using Value = NetworkBuilder::Value;

  /// The nearest multiple of 8, but at least 8 and at least nine tenths.
  static std::int64_t rounded(double channels) {
    const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
    return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
  }

  struct Writer {
    NetworkBuilder& net;
    int strides_left_out;
    bool unbounded;  ///< ReLU, otherwise ReLU with outputs of at most 6

    std::int64_t stride(std::int64_t wanted) {
      if (wanted == 1 || strides_left_out == 0) return wanted;
      --strides_left_out;
      return 1;
    }
    Value convolve(const std::string& name, Value x, layers::Convolution convolution) const {
      convolution.padding = convolution.kernel.height / 2;
      convolution.bias = false;
      convolution.weights = {.draw = Weights::Draw::he_out};
      return net.batch_norm(name + ".norm", net.convolution(name + ".conv", x, convolution));
    }
    Value activate(Value x) const { return unbounded ? net.relu(x) : net.relu6(x); }
    Value depthwise(const std::string& name, Value x, std::int64_t step) const {
      const auto channels = net.channels(x);
      return activate(convolve(name, x, {.channels = channels, .kernel = 3, .stride = step, .groups = channels}));
    }
    Value begin(double width) {
      return activate(
          convolve("first", net.images(), {.channels = rounded(32 * width), .kernel = 3, .stride = stride(2)}));
    }
  };

  static Value version1(Writer& writer, double width) {
    struct Pair {
      int channels, stride;
    };
    constexpr Pair pairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                              {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
    auto x = writer.begin(width);
    int number = 0;
    for (const auto& [channels, stride] : pairs) {
      const auto name = "blocks." + std::to_string(number++);
      x = writer.depthwise(name + ".depthwise", x, writer.stride(stride));
      x = writer.activate(writer.convolve(name + ".mix", x, {.channels = rounded(channels * width)}));
    }
    return x;
  }

  static Value version2(NetworkBuilder& net, Writer& writer, double width) {
    struct Stage {
      int widening, channels, blocks, stride;
    };
    constexpr Stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    auto x = writer.begin(width);
    int number = 0;
    for (const auto& [widening, channels, blocks, first_stride] : stages) {
      for (int i = 0; i < blocks; ++i) {
        const auto name = "blocks." + std::to_string(number++);
        const auto out = rounded(channels * width);
        const std::int64_t stride = i == 0 ? first_stride : 1;
        auto inner = x;
        if (widening > 1) {
          const auto wide = widening * net.channels(x);
          inner = writer.activate(writer.convolve(name + ".widen", x, {.channels = wide}));
        }
        inner = writer.depthwise(name + ".depthwise", inner, writer.stride(stride));
        inner = writer.convolve(name + ".narrow", inner, {.channels = out});
        x = stride == 1 && net.channels(x) == out ? net.add(inner, x) : inner;
      }
    }
    return writer.activate(writer.convolve("last", x, {.channels = rounded(1280 * std::max(1.0, width))}));
  }
};

}  // namespace weir::training
