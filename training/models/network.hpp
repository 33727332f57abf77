#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "protocol/training_shape.hpp"

/// A network as plain data: its layers, and the tensors that they train. Nothing here needs LibTorch, so the head can
/// ask a network for its shapes; a worker makes a Model of the same data (graph_model.hpp). network_builder.hpp writes
/// it.
namespace weir::training {

/// The two directions of an image. One number stands for both.
struct Sides {
  std::int64_t height;
  std::int64_t width;

  constexpr Sides(std::int64_t both) : height(both), width(both) {}
  constexpr Sides(std::int64_t down, std::int64_t across) : height(down), width(across) {}

  friend bool operator==(const Sides&, const Sides&) = default;
};

/// How the weights of a layer begin. The biases beside them begin as LibTorch draws them if the weights do, else at
/// zero.
struct Weights {
  enum class Draw {
    standard,  ///< as LibTorch draws them: within 1 / sqrt(inputs of one output); those of an embedding normal(0, 1)
    he_in,   ///< normal with variance 2 / (inputs of one output): He et al., "Delving Deep into Rectifiers", ICCV 2015
    he_out,  ///< normal with variance 2 / (outputs of one input), from the same paper
    normal,  ///< normal with `deviation`
  };
  Draw draw = Draw::standard;
  double deviation = 0;
  /// Draws the standard values first and then these over them, as happens to a LibTorch module whose weights are set
  /// anew. The biases keep the standard values.
  bool over_standard = false;
  /// Layers of a later turn are drawn after all of an earlier one; within a turn in the order of the network.
  int turn = 0;
};

/// What a layer computes. Sizes are those of one example: an image is [channels, height, width], a text [tokens] or,
/// with a vector for each token, [tokens, features].
namespace layers {

struct Input {};
struct Convolution {
  std::int64_t channels = 0;
  Sides kernel = 1;
  Sides stride = 1;
  Sides padding = 0;
  std::int64_t groups = 1;  ///< the channels are cut into so many groups, each of which sees only its own
  bool bias = true;
  Weights weights = {};
};
/// Applied to the last extent.
struct Linear {
  std::int64_t features = 0;
  bool bias = true;
  Weights weights = {};
};
/// Over the batch and the pixels of each channel. Keeps running statistics, which replace those of the batch in
/// evaluation.
struct BatchNorm {
  double epsilon = 1e-5;
  bool zero = false;  ///< the scale begins at zero and not at one: the branch that it ends begins as if it were absent
};
/// Over the last extent.
struct LayerNorm {
  double epsilon = 1e-5;
};
/// A row of a table for each token.
struct Embedding {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  Weights weights = {};
};
/// Adds a row of a table to each token: the first to the first, and so on.
struct Positions {
  std::int64_t rows = 0;
  Weights weights = {};
};
/// Long short-term memory over the tokens, `depth` layers of it.
struct Lstm {
  std::int64_t features = 0;
  std::int64_t depth = 1;
};
/// Causal self-attention: its input holds queries, keys and values of each token, one after the other, and each token
/// sees itself and those before it.
struct Attention {
  std::int64_t heads = 1;
  double dropout = 0;
};
struct Relu {};
struct Relu6 {};
struct Gelu {};
struct Pool {
  Sides kernel = 2;
  Sides stride = 2;
  Sides padding = 0;
  bool round_up = false;  ///< a last window that is not full counts as well
};
struct MaxPool : Pool {};
struct AveragePool : Pool {};  ///< the padding counts as zeros
struct GlobalAverage {};       ///< of each channel, over all pixels
struct Flatten {};
struct Add {};
struct Concatenate {};  ///< the channels of images
struct Dropout {
  double rate = 0.5;
};
/// Every other pixel, and so many channels, of which those added are zero and lie on both sides.
struct HalvedShortcut {
  std::int64_t channels = 0;
};
/// [tokens, classes] to [classes, tokens], which is what the loss takes.
struct ClassesFirst {};

using Operation = std::variant<Input, Convolution, Linear, BatchNorm, LayerNorm, Embedding, Positions, Lstm, Attention,
                               Relu, Relu6, Gelu, MaxPool, AveragePool, GlobalAverage, Flatten, Add, Concatenate,
                               Dropout, HalvedShortcut, ClassesFirst>;

}  // namespace layers

/// Values that a tensor gets.
struct Fill {
  enum class Kind { constant, uniform, normal } kind = Kind::constant;
  double value = 0;  ///< the constant; the bound on both sides of zero; the standard deviation

  friend bool operator==(const Fill&, const Fill&) = default;
};

/// A tensor that is trained.
struct Parameter {
  protocol::ParameterShape shape;
  std::vector<Fill> fills;  ///< done one after the other; the last one stays
  int turn = 0;             ///< as in Weights
  bool decays = true;       ///< false for biases and those of normalisations, which optimizers with no_decay spare
};

struct Layer {
  std::string name;  ///< empty if it has no parameters
  layers::Operation operation;
  std::vector<std::size_t> inputs;      ///< the layers whose outputs it reads
  std::vector<std::size_t> parameters;  ///< of Network::parameters
  std::vector<std::int64_t> extents;    ///< of its output, for one example
};

/// A value. Made by NetworkBuilder, which has checked that everything fits.
struct Network {
  /// The first is the input. Each comes after those that it reads.
  std::vector<Layer> layers;
  std::vector<Parameter> parameters;
  std::size_t output = 0;  ///< the layer with the logits
};

/// The names and extents of the parameters, in their order.
std::vector<protocol::ParameterShape> shapes_of(const Network& network);
/// The product of the extents, or the greatest number if that is less.
std::int64_t entries_of(const std::vector<std::int64_t>& extents);
/// Of all parameters. At most network_entries_max.
std::int64_t entries_of(const Network& network);

/// What a network may have at most, in one tensor and in all.
inline constexpr std::int64_t tensor_entries_max = std::int64_t{1} << 31;
inline constexpr std::int64_t network_entries_max = std::int64_t{1} << 33;

}  // namespace weir::training
