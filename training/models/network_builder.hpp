#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "training/datasets/shape.hpp"
#include "training/models/network.hpp"

namespace weir::training {

/// Writes a Network layer by layer. Each call adds a layer and returns its output, to be read by later ones; the
/// builder works out the extents of that output, and names the parameters "LAYER.weight" and so on.
///
///     NetworkBuilder net("small", shape);
///     auto x = net.images();
///     x = net.relu(net.convolution("conv", x, {.channels = 8, .kernel = 3}));
///     return net.finish(net.linear("fc", net.flatten(x), {.features = shape.classes}));
///
/// What depends on options and examples fails: the first failure is kept, the calls after it do nothing, and finish()
/// returns it. What only the description can get wrong (an image where a text belongs) is a programming error.
class NetworkBuilder {
 public:
  /// The output of a layer.
  struct Value {
    std::size_t layer = 0;
  };

  /// For a model with that name, which the errors state.
  NetworkBuilder(std::string_view model, const ExampleShape& shape);

  /// The examples, which must be images or texts.
  Value images();
  Value texts();

  Value convolution(const std::string& name, Value x, const layers::Convolution& convolution);
  Value linear(const std::string& name, Value x, const layers::Linear& linear);
  /// A linear layer without bias whose weight is that of the embedding that `embedded` is the output of.
  Value tied_linear(Value x, Value embedded);
  /// Needs more than one pixel, or an image by itself would have nothing to be normalised with.
  Value batch_norm(const std::string& name, Value x, const layers::BatchNorm& norm = {});
  Value layer_norm(const std::string& name, Value x);
  Value embedding(const std::string& name, Value x, const layers::Embedding& embedding);
  Value positions(const std::string& name, Value x, const layers::Positions& positions);
  Value lstm(const std::string& name, Value x, const layers::Lstm& lstm);
  Value attention(Value queries_keys_values, const layers::Attention& attention);

  Value relu(Value x);
  Value relu6(Value x);
  Value gelu(Value x);
  Value max_pool(Value x, const layers::Pool& pool);
  Value average_pool(Value x, const layers::Pool& pool);
  Value global_average(Value x);
  Value flatten(Value x);
  Value add(Value a, Value b);
  Value concatenate(const std::vector<Value>& parts);
  /// Nothing if the rate is 0.
  Value dropout(Value x, double rate);
  Value halved_shortcut(Value x, std::int64_t channels);
  Value classes_first(Value x);

  /// The channels of an image, the features of what is flat, the tokens of a text.
  std::int64_t channels(Value x) const { return extents(x).front(); }

  /// Fails with: invalid_argument and "model NAME REASON", unless something failed before.
  void refuse(const std::string& reason);

  /// Fails with: invalid_argument (what was refused: an image that is too small for a layer, a tensor that is too
  /// large), naming the layer and its extents.
  Result<Network> finish(Value output);

 private:
  const std::vector<std::int64_t>& extents(Value x) const { return network_.layers[x.layer].extents; }
  Value append(std::string name, const layers::Operation& operation, const std::vector<Value>& inputs,
               std::vector<std::int64_t> extents);
  Value same(const layers::Operation& operation, Value x) { return append("", operation, {x}, extents(x)); }
  void parameter(std::string name, std::vector<std::int64_t> extents, std::vector<Fill> fills, int turn = 0,
                 bool decays = true);
  std::vector<std::int64_t> pooled(Value x, const layers::Pool& pool);
  bool image(Value x, const char* of) const;

  std::string model_;
  ExampleShape shape_;
  Network network_;
  std::int64_t entries_ = 0;
  std::optional<Error> error_;
};

}  // namespace weir::training
