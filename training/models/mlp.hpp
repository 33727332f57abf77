#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// Hidden layers with ReLU between flattened images and classes: with one, the smallest network that learns something.
struct Mlp {
  static constexpr std::string_view type_name = "mlp";
  static constexpr std::string_view summary = "hidden layers, one unless more are wanted; small, for trying things";

  struct Options {
    std::int64_t hidden = 64;
    std::vector<std::int64_t> widths = {};
  };
  static protocol::Params<Options> params() {
    constexpr std::int64_t width_max = 65536;
    return protocol::Params<Options>()
        .integer("hidden", &Options::hidden, {.minimum = 1, .maximum = width_max}, "width of the hidden layer")
        .integers("widths", &Options::widths, {.minimum = 1, .maximum = width_max}, 64,
                  "widths of several hidden layers, instead of one of that width")
        .only_where("hidden", "widths", {{"maxItems", 0}});
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = net.flatten(net.images());
    const auto widths = options.widths.empty() ? std::vector{options.hidden} : options.widths;
    int layer = 1;
    const auto name = [&layer] { return "fc" + std::to_string(layer++); };
    for (const auto width : widths) x = net.relu(net.linear(name(), x, {.features = width}));
    return net.finish(net.linear(name(), x, {.features = shape.classes}));
  }
};

}  // namespace weir::training
