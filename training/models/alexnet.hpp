#pragma once

#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// The network of Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks" (NIPS 2012), in
/// the form for one processor of Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014):
/// five convolutions, three of them with max pooling, and two layers of 4096 with dropout before that of the classes.
/// No response normalisation. 61,100,840 parameters on 224 x 224 images with 1000 classes.
///
/// With `small_images`: two 3x3 convolutions of 32 and 64 channels, each with 2x2 max pooling, and two layers of 2048;
/// 10,660,234 parameters on 28 x 28 x 1 with 10 classes.
struct AlexNet {
  static constexpr std::string_view type_name = "alexnet";
  static constexpr std::string_view summary =
      "AlexNet; 61,100,840 parameters on 224 x 224 with 1000 classes, 10,660,234 in its form for 28 x 28 x 1";

  struct Options {
    bool small_images = false;
    double dropout = 0.5;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .flag("small_images", &Options::small_images, "two convolutions and layers of 2048, for small images")
        .number("dropout", &Options::dropout, {.minimum = 0, .exclusive_maximum = 1},
                "share of the inputs of both wide layers that is left out in training");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = net.images();
    int layer = 0;
    const auto convolve = [&](const layers::Convolution& convolution) {
      x = net.relu(net.convolution("conv" + std::to_string(++layer), x, convolution));
    };
    const auto pool = [&](std::int64_t kernel) { x = net.max_pool(x, {.kernel = kernel, .stride = 2}); };
    if (options.small_images) {
      convolve({.channels = 32, .kernel = 3, .padding = 1});
      pool(2);
      convolve({.channels = 64, .kernel = 3, .padding = 1});
      pool(2);
    } else {
      convolve({.channels = 64, .kernel = 11, .stride = 4, .padding = 2});
      pool(3);
      convolve({.channels = 192, .kernel = 5, .padding = 2});
      pool(3);
      convolve({.channels = 384, .kernel = 3, .padding = 1});
      convolve({.channels = 256, .kernel = 3, .padding = 1});
      convolve({.channels = 256, .kernel = 3, .padding = 1});
      pool(3);
    }
    x = net.flatten(x);
    for (const auto* name : {"fc1", "fc2"}) {
      x = net.dropout(x, options.dropout);
      x = net.relu(net.linear(name, x, {.features = options.small_images ? 2048 : 4096}));
    }
    return net.finish(net.linear("fc3", x, {.features = shape.classes}));
  }
};

}  // namespace weir::training
