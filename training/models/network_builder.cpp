#include "training/models/network_builder.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "protocol/training_shape.hpp"

namespace weir::training {
namespace {

using Extents = std::vector<std::int64_t>;

std::string written(const Extents& extents) { return protocol::extents_text(extents); }
std::string written(Sides sides) { return written(Extents{sides.height, sides.width}); }

/// The number of places for a window, or less than one if there is none.
std::int64_t places(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                    bool round_up = false) {
  const auto room = extent + 2 * padding - kernel;
  if (room < 0) return 0;
  auto count = room / stride + 1;
  // A window that begins in the padding behind the image would see nothing of it.
  if (round_up && room % stride != 0 && count * stride < extent + padding) ++count;
  return count;
}

/// What LibTorch draws weights and biases from. `inputs` are those of one output.
Fill standard(std::int64_t inputs) { return {Fill::Kind::uniform, 1 / std::sqrt(static_cast<double>(inputs))}; }

std::vector<Fill> fills_of(const Weights& weights, Fill standard, std::int64_t inputs, std::int64_t outputs) {
  const auto he = [](std::int64_t fan) { return std::sqrt(2.0 / static_cast<double>(fan)); };
  std::vector<Fill> fills;
  if (weights.over_standard || weights.draw == Weights::Draw::standard) fills.push_back(standard);
  switch (weights.draw) {
    case Weights::Draw::standard: break;
    case Weights::Draw::he_in: fills.push_back({Fill::Kind::normal, he(inputs)}); break;
    case Weights::Draw::he_out: fills.push_back({Fill::Kind::normal, he(outputs)}); break;
    case Weights::Draw::normal: fills.push_back({Fill::Kind::normal, weights.deviation}); break;
  }
  return fills;
}

Fill bias_fill(const Weights& weights, std::int64_t inputs) {
  return weights.draw == Weights::Draw::standard || weights.over_standard ? standard(inputs) : Fill{};
}

constexpr Fill zeros{Fill::Kind::constant, 0};
constexpr Fill ones{Fill::Kind::constant, 1};

}  // namespace

NetworkBuilder::NetworkBuilder(std::string_view model, const ExampleShape& shape) : model_(model), shape_(shape) {
  const bool text = shape.tokens > 0;
  const auto input = text ? Extents{shape.tokens} : Extents{shape.channels, shape.height, shape.width};
  network_.layers.push_back({"", layers::Input{}, {}, {}, input});
  // Beyond these, what is computed from the extents below could leave the range of 64 bits.
  constexpr std::int64_t extent_max = std::int64_t{1} << 31;
  for (const auto extent : input) {
    if (extent < 1 || extent > extent_max) refuse("takes no examples of " + written(input));
  }
  if (shape.classes < 1 || shape.classes > extent_max)
    refuse("cannot tell " + std::to_string(shape.classes) + " classes");
}

NetworkBuilder::Value NetworkBuilder::images() {
  if (shape_.tokens > 0) refuse("takes images, and the examples are texts");
  return {};
}

NetworkBuilder::Value NetworkBuilder::texts() {
  if (shape_.tokens == 0) refuse("takes texts, and the examples are images");
  return {};
}

void NetworkBuilder::refuse(const std::string& reason) {
  if (!error_) error_ = Error{Errc::invalid_argument, "model " + model_ + " " + reason};
}

Result<Network> NetworkBuilder::finish(Value output) {
  if (error_) return *error_;
  network_.output = output.layer;
  return std::move(network_);
}

NetworkBuilder::Value NetworkBuilder::append(std::string name, const layers::Operation& operation,
                                             const std::vector<Value>& inputs, Extents extents) {
  if (error_) return {};
  Layer layer{std::move(name), operation, {}, {}, std::move(extents)};
  for (const auto input : inputs) layer.inputs.push_back(input.layer);
  network_.layers.push_back(std::move(layer));
  return {network_.layers.size() - 1};
}

/// Adds a parameter to the layer that was appended last.
void NetworkBuilder::parameter(std::string name, Extents extents, std::vector<Fill> fills, int turn, bool decays) {
  if (error_) return;
  Layer& layer = network_.layers.back();
  const auto full_name = layer.name + "." + name;
  const auto entries = entries_of(extents);
  if (entries > tensor_entries_max) {
    return refuse("would have " + written(extents) + " entries in " + full_name + ", and a tensor has at most 2^31");
  }
  entries_ += entries;
  if (entries_ > network_entries_max) {
    return refuse("would have more than 2^33 parameters: " + full_name + " adds " + written(extents));
  }
  layer.parameters.push_back(network_.parameters.size());
  network_.parameters.push_back({{full_name, std::move(extents)}, std::move(fills), turn, decays});
}

/// Whether there is an image to work on. After a failure there need not be one.
bool NetworkBuilder::image(Value x, const char* of) const {
  if (error_) return false;
  ensure(extents(x).size() == 3, of);
  return true;
}

NetworkBuilder::Value NetworkBuilder::convolution(const std::string& name, Value x,
                                                  const layers::Convolution& convolution) {
  if (!image(x, "a convolution of what is no image")) return {};
  const auto& [channels, kernel, stride, padding, groups, bias, weights] = convolution;
  const auto in = extents(x);
  ensure(in[0] % groups == 0 && channels % groups == 0, "the groups of a convolution share its channels evenly");
  const Extents out = {channels, places(in[1], kernel.height, stride.height, padding.height),
                       places(in[2], kernel.width, stride.width, padding.width)};
  if (out[1] < 1 || out[2] < 1) {
    refuse("needs larger images: a kernel of " + written(kernel) + " in layer " + name + " does not fit into " +
           written(in));
    return {};
  }
  const auto value = append(name, convolution, {x}, out);
  const auto window = kernel.height * kernel.width;
  const auto inputs = in[0] / groups * window;
  const auto outputs = channels / groups * window;
  parameter("weight", {channels, in[0] / groups, kernel.height, kernel.width},
            fills_of(weights, standard(inputs), inputs, outputs), weights.turn);
  if (bias) parameter("bias", {channels}, {bias_fill(weights, inputs)}, weights.turn, false);
  return value;
}

NetworkBuilder::Value NetworkBuilder::linear(const std::string& name, Value x, const layers::Linear& linear) {
  if (error_) return {};
  const auto& [features, bias, weights] = linear;
  auto out = extents(x);
  const auto inputs = std::exchange(out.back(), features);
  const auto value = append(name, linear, {x}, out);
  parameter("weight", {features, inputs}, fills_of(weights, standard(inputs), inputs, features), weights.turn);
  if (bias) parameter("bias", {features}, {bias_fill(weights, inputs)}, weights.turn, false);
  return value;
}

NetworkBuilder::Value NetworkBuilder::tied_linear(Value x, Value embedded) {
  if (error_) return {};
  const auto weight = network_.layers[embedded.layer].parameters.front();
  const auto& table = network_.parameters[weight].shape.extents;
  auto out = extents(x);
  ensure(out.back() == table[1], "a tied layer takes what the embedding gives");
  out.back() = table[0];
  const auto value = append("", layers::Linear{.features = table[0], .bias = false}, {x}, out);
  network_.layers[value.layer].parameters = {weight};
  return value;
}

NetworkBuilder::Value NetworkBuilder::batch_norm(const std::string& name, Value x, const layers::BatchNorm& norm) {
  if (!image(x, "a batch normalisation of what is no image")) return {};
  const auto in = extents(x);
  if (in[1] * in[2] == 1) {
    refuse("needs larger images: layer " + name + " would normalise " + written(in) + ", one pixel of each channel");
    return {};
  }
  const auto value = append(name, norm, {x}, in);
  parameter("weight", {in[0]}, {norm.zero ? zeros : ones}, 0, false);
  parameter("bias", {in[0]}, {zeros}, 0, false);
  return value;
}

NetworkBuilder::Value NetworkBuilder::layer_norm(const std::string& name, Value x) {
  const auto in = extents(x);
  const auto value = append(name, layers::LayerNorm{}, {x}, in);
  parameter("weight", {in.back()}, {ones}, 0, false);
  parameter("bias", {in.back()}, {zeros}, 0, false);
  return value;
}

NetworkBuilder::Value NetworkBuilder::embedding(const std::string& name, Value x, const layers::Embedding& embedding) {
  const auto& [rows, features, weights] = embedding;
  const auto value = append(name, embedding, {x}, {extents(x)[0], features});
  parameter("weight", {rows, features}, fills_of(weights, {Fill::Kind::normal, 1}, rows, features), weights.turn);
  return value;
}

NetworkBuilder::Value NetworkBuilder::positions(const std::string& name, Value x, const layers::Positions& positions) {
  if (error_) return {};
  const auto& [rows, weights] = positions;
  const auto in = extents(x);
  ensure(in.size() == 2, "positions belong to the tokens of a text");
  if (in[0] > rows) {
    refuse("has " + std::to_string(rows) + " positions in layer " + name + ", and the texts have " + written(in) +
           " tokens and features");
    return {};
  }
  const auto value = append(name, positions, {x}, in);
  parameter("weight", {rows, in[1]}, fills_of(weights, {Fill::Kind::normal, 1}, rows, in[1]), weights.turn);
  return value;
}

NetworkBuilder::Value NetworkBuilder::lstm(const std::string& name, Value x, const layers::Lstm& lstm) {
  if (error_) return {};
  const auto in = extents(x);
  ensure(in.size() == 2, "long short-term memory reads the tokens of a text");
  const auto value = append(name, lstm, {x}, {in[0], lstm.features});
  auto inputs = in[1];
  for (std::int64_t i = 0; i < lstm.depth; ++i) {
    // Four gates, one below the other.
    const auto suffix = "_l" + std::to_string(i);
    const auto gates = 4 * lstm.features;
    parameter("weight_ih" + suffix, {gates, inputs}, {standard(lstm.features)});
    parameter("weight_hh" + suffix, {gates, lstm.features}, {standard(lstm.features)});
    parameter("bias_ih" + suffix, {gates}, {standard(lstm.features)}, 0, false);
    parameter("bias_hh" + suffix, {gates}, {standard(lstm.features)}, 0, false);
    inputs = lstm.features;
  }
  return value;
}

NetworkBuilder::Value NetworkBuilder::attention(Value queries_keys_values, const layers::Attention& attention) {
  if (error_) return {};
  const auto in = extents(queries_keys_values);
  ensure(in.size() == 2 && in[1] % 3 == 0, "attention takes queries, keys and values of tokens");
  const auto width = in[1] / 3;
  if (width % attention.heads != 0) {
    refuse("cannot share a width of " + std::to_string(width) + " evenly among " + std::to_string(attention.heads) +
           " heads");
    return {};
  }
  return append("", attention, {queries_keys_values}, {in[0], width});
}

NetworkBuilder::Value NetworkBuilder::relu(Value x) { return same(layers::Relu{}, x); }
NetworkBuilder::Value NetworkBuilder::relu6(Value x) { return same(layers::Relu6{}, x); }
NetworkBuilder::Value NetworkBuilder::gelu(Value x) { return same(layers::Gelu{}, x); }

NetworkBuilder::Value NetworkBuilder::dropout(Value x, double rate) {
  return rate == 0 ? x : same(layers::Dropout{rate}, x);
}

Extents NetworkBuilder::pooled(Value x, const layers::Pool& pool) {
  const auto& [kernel, stride, padding, round_up] = pool;
  const auto& in = extents(x);
  Extents out = {in[0], places(in[1], kernel.height, stride.height, padding.height, round_up),
                 places(in[2], kernel.width, stride.width, padding.width, round_up)};
  if (out[1] < 1 || out[2] < 1) {
    refuse("needs larger images: pooling " + written(kernel) + " does not fit into " + written(in));
  }
  return out;
}

NetworkBuilder::Value NetworkBuilder::max_pool(Value x, const layers::Pool& pool) {
  return image(x, "pooling of what is no image") ? append("", layers::MaxPool{pool}, {x}, pooled(x, pool)) : Value{};
}

NetworkBuilder::Value NetworkBuilder::average_pool(Value x, const layers::Pool& pool) {
  return image(x, "pooling of what is no image") ? append("", layers::AveragePool{pool}, {x}, pooled(x, pool))
                                                 : Value{};
}

NetworkBuilder::Value NetworkBuilder::global_average(Value x) {
  return append("", layers::GlobalAverage{}, {x}, {extents(x)[0]});
}

NetworkBuilder::Value NetworkBuilder::flatten(Value x) {
  return append("", layers::Flatten{}, {x}, {entries_of(extents(x))});
}

NetworkBuilder::Value NetworkBuilder::add(Value a, Value b) {
  if (error_) return {};
  ensure(extents(a) == extents(b), "only what has the same extents can be added");
  return append("", layers::Add{}, {a, b}, extents(a));
}

NetworkBuilder::Value NetworkBuilder::concatenate(const std::vector<Value>& parts) {
  if (error_) return {};
  auto out = extents(parts.front());
  out[0] = 0;
  for (const auto part : parts) {
    const auto& in = extents(part);
    ensure(in.size() == 3 && in[1] == out[1] && in[2] == out[2], "only images of one size can be concatenated");
    out[0] += in[0];
  }
  return append("", layers::Concatenate{}, parts, out);
}

NetworkBuilder::Value NetworkBuilder::halved_shortcut(Value x, std::int64_t channels) {
  if (!image(x, "a shortcut of what is no image")) return {};
  const auto& in = extents(x);
  ensure(channels >= in[0], "a shortcut loses no channels");
  return append("", layers::HalvedShortcut{channels}, {x}, {channels, (in[1] + 1) / 2, (in[2] + 1) / 2});
}

NetworkBuilder::Value NetworkBuilder::classes_first(Value x) {
  if (error_) return {};
  const auto& in = extents(x);
  ensure(in.size() == 2, "logits of tokens have two extents");
  return append("", layers::ClassesFirst{}, {x}, {in[1], in[0]});
}

}  // namespace weir::training
