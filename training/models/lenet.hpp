#pragma once

#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// LeNet: two 5x5 convolutions, each with 2x2 max pooling and ReLU, then linear layers with ReLU between them.
///
/// Variant `caffe` is the size that Caffe and the gradient compression papers use: 20 and 50 channels, and one hidden
/// layer of 500; 431,080 parameters on 28 x 28 images with 10 classes. (Caffe has no ReLU after the pooling; without it
/// the usual rate of 0.05 with momentum 0.9 diverges.)
///
/// Variant `lecun` has the sizes of LeNet-5 of LeCun et al., "Gradient-Based Learning Applied to Document Recognition"
/// (1998): 6 and 16 channels, and layers of 120 and 84; 61,706 parameters. As there, images of 28 x 28 get a border of
/// two pixels. The paper's squashing functions, trained pooling and sparse connections are left out, as usual today.
struct LeNet {
  static constexpr std::string_view type_name = "lenet";
  static constexpr std::string_view summary =
      "two convolutions of 20 and 50 channels, layers of 500 and 10 (431,080 parameters), or LeNet-5 (61,706)";

  struct Options {
    std::string variant = "caffe";
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>().choice("variant", &Options::variant, {"caffe", "lecun"},
                                              "caffe: layers of 20, 50 and 500; lecun: of 6, 16, 120 and 84");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    const bool caffe = options.variant == "caffe";
    const auto border = [caffe](std::int64_t extent) -> std::int64_t { return caffe || extent >= 32 ? 0 : 2; };
    NetworkBuilder net(type_name, shape);
    auto x = net.images();
    x = net.convolution(
        "conv1", x, {.channels = caffe ? 20 : 6, .kernel = 5, .padding = {border(shape.height), border(shape.width)}});
    x = net.relu(net.max_pool(x, {.kernel = 2, .stride = 2}));
    x = net.convolution("conv2", x, {.channels = caffe ? 50 : 16, .kernel = 5});
    x = net.flatten(net.relu(net.max_pool(x, {.kernel = 2, .stride = 2})));
    x = net.relu(net.linear("fc1", x, {.features = caffe ? 500 : 120}));
    if (!caffe) x = net.relu(net.linear("fc2", x, {.features = 84}));
    return net.finish(net.linear(caffe ? "fc2" : "fc3", x, {.features = shape.classes}));
  }
};

}  // namespace weir::training
