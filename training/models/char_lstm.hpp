#pragma once

#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// Predicts the next character of a text: an embedding, layers of long short-term memory, and a layer of classes, one
/// for each character. The standard sizes are those of McMahan et al., "Communication-Efficient Learning of Deep
/// Networks from Decentralized Data" (AISTATS 2017), for Shakespeare's plays.
struct CharLstm {
  static constexpr std::string_view type_name = "char_lstm";
  static constexpr std::string_view summary = "predicts the next character of a text with long short-term memory";

  struct Options {
    std::int64_t embedding = 8;
    std::int64_t hidden = 256;
    std::int64_t layers = 2;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .integer("embedding", &Options::embedding, {.minimum = 1, .maximum = 65536}, "features of a character")
        .integer("hidden", &Options::hidden, {.minimum = 1, .maximum = 65536}, "features of each layer")
        .integer("layers", &Options::layers, {.minimum = 1, .maximum = 64}, "layers of long short-term memory");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    auto x = net.embedding("embedding", net.texts(), {.rows = shape.classes, .features = options.embedding});
    x = net.lstm("lstm", x, {.features = options.hidden, .depth = options.layers});
    return net.finish(net.classes_first(net.linear("fc", x, {.features = shape.classes})));
  }
};

}  // namespace weir::training
