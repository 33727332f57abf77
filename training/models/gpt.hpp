#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "protocol/params.hpp"
#include "training/models/network_builder.hpp"

namespace weir::training {

/// A transformer that predicts the next token, as GPT-2: Radford et al., "Language Models are Unsupervised Multitask
/// Learners" (2019). Embeddings of tokens and of positions, blocks of causal self-attention and of two linear layers
/// (the inner one four times as wide), each after a layer normalisation and inside a shortcut, a last normalisation,
/// and a layer of classes, which may share its weight with the embedding of the tokens. With 12 layers of width 768, a
/// context of 1024 and 50257 classes it has 124,439,808 parameters.
///
/// Weights begin normal with a deviation of 0.02; those that end a branch with less, so that the sum over all branches
/// does not grow with their number.
struct Gpt {
  static constexpr std::string_view type_name = "gpt";
  static constexpr std::string_view summary =
      "transformer that predicts the next token; 124,439,808 parameters in GPT-2's size";

  struct Options {
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 128;
    std::int64_t context = 0;
    bool tied_head = true;
    double dropout = 0;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .integer("layers", &Options::layers, {.minimum = 1, .maximum = 256}, "blocks")
        .integer("heads", &Options::heads, {.minimum = 1, .maximum = 256},
                 "of the attention of each block; they share the width")
        .integer("width", &Options::width, {.minimum = 1, .maximum = 65536}, "features of a token")
        .integer("context", &Options::context, {.minimum = 0, .maximum = 1 << 20},
                 "longest text; 0: as long as those of the data set")
        .flag("tied_head", &Options::tied_head, "the layer of classes has the weight of the embedding")
        .number("dropout", &Options::dropout, {.minimum = 0, .exclusive_maximum = 1},
                "share of the outputs of embeddings, attentions and branches that is left out in training");
  }

  static Result<Network> network(const Options& options, const ExampleShape& shape) {
    NetworkBuilder net(type_name, shape);
    const auto rows = options.context > 0 ? options.context : shape.tokens;
    const auto embedded =
        net.embedding("tokens", net.texts(), {.rows = shape.classes, .features = options.width, .weights = drawn});
    auto x = net.dropout(net.positions("positions", embedded, {.rows = rows, .weights = drawn}), options.dropout);
    for (std::int64_t i = 0; i < options.layers; ++i) x = block(net, "blocks." + std::to_string(i) + ".", x, options);
    x = net.layer_norm("norm", x);
    x = options.tied_head ? net.tied_linear(x, embedded)
                          : net.linear("head", x, {.features = shape.classes, .bias = false, .weights = drawn});
    return net.finish(net.classes_first(x));
  }

 private:
  using Value = NetworkBuilder::Value;

  static constexpr Weights drawn = {.draw = Weights::Draw::normal, .deviation = 0.02};

  static Value block(NetworkBuilder& net, const std::string& name, Value x, const Options& options) {
    auto last = drawn;
    last.deviation /= std::sqrt(2.0 * static_cast<double>(options.layers));
    const auto width = options.width;

    auto branch = net.layer_norm(name + "norm1", x);
    branch = net.linear(name + "attention.in", branch, {.features = 3 * width, .weights = drawn});
    branch = net.attention(branch, {.heads = options.heads, .dropout = options.dropout});
    branch = net.linear(name + "attention.out", branch, {.features = width, .weights = last});
    x = net.add(x, net.dropout(branch, options.dropout));

    branch = net.layer_norm(name + "norm2", x);
    branch = net.gelu(net.linear(name + "mlp.in", branch, {.features = 4 * width, .weights = drawn}));
    branch = net.linear(name + "mlp.out", branch, {.features = width, .weights = last});
    return net.add(x, net.dropout(branch, options.dropout));
  }
};

}  // namespace weir::training
