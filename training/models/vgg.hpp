#pragma once

#include <array>
#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR 2015),
/// configurations A, B, D and E: five stages of 3x3 convolutions with ReLU, each followed by 2x2 max pooling, and two
/// layers of 4096 before that of the classes. 138,357,544 parameters at depth 16 on 224 x 224 images with 1000 classes,
/// most of them in the first layer of 4096, whose size follows from that of the images.
///
/// With `small_images` the pooling rounds up, so that 28 x 28 is enough, and the layer of classes is the only linear
/// one, as is usual on CIFAR-10 (14,728,266 parameters at depth 16 with batch normalisation).
struct Vgg {
  static constexpr std::string_view type_name = "vgg";
  static constexpr std::string_view summary =
      "VGG at depths 11 to 19; 138,357,544 parameters at depth 16 on 224 x 224 with 1000 classes";

  struct Options {
    std::int64_t depth = 16;
    bool batch_norm = false;
    bool small_images = false;
    double dropout = 0.5;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .choice("depth", &Options::depth, {11, 13, 16, 19}, "layers with weights")
        .flag("batch_norm", &Options::batch_norm, "batch normalisation after each convolution")
        .flag("small_images", &Options::small_images, "pooling that rounds up, and a single linear layer")
        .number("dropout", &Options::dropout, {.minimum = 0, .exclusive_maximum = 1},
                "share of the outputs of both layers of 4096 that is left out in training")
        .only_where("dropout", "small_images", {{"const", false}});
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = net.images();
    int layer = 0;
    for (const auto& [channels, convolutions] : stages_of(options.depth)) {
      for (int i = 0; i < convolutions; ++i) {
        const auto number = std::to_string(++layer);
        x = net.convolution(
            "conv" + number, x,
            {.channels = channels, .kernel = 3, .padding = 1, .weights = {.draw = Weights::Draw::he_out}});
        if (options.batch_norm) x = net.batch_norm("norm" + number, x);
        x = net.relu(x);
      }
      x = net.max_pool(x, {.kernel = 2, .stride = 2, .round_up = options.small_images});
    }
    x = net.flatten(x);
    const Weights weights = {.draw = Weights::Draw::normal, .deviation = 0.01};
    int linear = 0;
    const auto name = [&linear] { return "fc" + std::to_string(++linear); };
    for (int i = 0; i < 2 && !options.small_images; ++i) {
      x = net.relu(net.linear(name(), x, {.features = 4096, .weights = weights}));
      x = net.dropout(x, options.dropout);
    }
    return net.finish(net.linear(name(), x, {.features = shape.classes, .weights = weights}));
  }

 private:
  struct Stage {
    std::int64_t channels;
    int convolutions;
  };
  static std::array<Stage, 5> stages_of(std::int64_t depth) {
    const int early = depth == 11 ? 1 : 2;
    const int late = depth == 19 ? 4 : depth == 16 ? 3 : 2;
    return {{{64, early}, {128, early}, {256, late}, {512, late}, {512, late}}};
  }
};

}  // namespace weir::training
