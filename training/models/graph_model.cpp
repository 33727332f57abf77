#include "training/models/graph_model.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "training/models/operations.hpp"

namespace weir::training {
namespace {

void fill(const at::Tensor& tensor, const Fill& fill, const at::Generator& random) {
  switch (fill.kind) {
    case Fill::Kind::constant: tensor.fill_(fill.value); break;
    case Fill::Kind::uniform: tensor.uniform_(-fill.value, fill.value, random); break;
    case Fill::Kind::normal: tensor.normal_(0, fill.value, random); break;
  }
}

/// A GPU's convolutions work on the channels of a pixel side by side, and turn what comes in another order each time.
/// Of small images that is no work, and beginning it takes longer.
bool is_better_turned(const at::Tensor& input) {
  constexpr std::int64_t least_pixels = 64 * 64;
  return input.is_cuda() && input.dim() == 4 && input.size(2) * input.size(3) >= least_pixels;
}

/// Not contiguous(), which leaves images of one channel as they are: they lie in both orders.
at::Tensor turned(const at::Tensor& input) {
  return at::empty_like(input, at::MemoryFormat::ChannelsLast).copy_(input);
}

std::vector<NamedTensor> made(const std::vector<Parameter>& parameters, const at::Generator& random) {
  std::vector<NamedTensor> tensors;
  for (const auto& [shape, fills, turn, decays] : parameters) {
    tensors.push_back({shape.name, at::empty(shape.extents, at::kFloat)});
  }
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return parameters[a].turn < parameters[b].turn; });
  for (const auto i : order) {
    for (const auto& values : parameters[i].fills) fill(tensors[i].tensor, values, random);
  }
  for (const auto& tensor : tensors) tensor.tensor.set_requires_grad(true);
  return tensors;
}

}  // namespace

GraphModel::GraphModel(Network network, const at::Generator& random)
    : network_(std::move(network)), parameters_(made(network_.parameters, random)), tensors_(network_.layers.size()) {
  std::vector<std::size_t> last_reader(network_.layers.size());
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    if (std::holds_alternative<layers::BatchNorm>(layer.operation)) {
      const auto channels = layer.extents.front();
      buffers_.push_back({layer.name + ".running_mean", at::zeros({channels})});
      buffers_.push_back({layer.name + ".running_var", at::ones({channels})});
      buffers_.push_back({layer.name + ".num_batches_tracked", at::zeros({}, at::kLong)});
    }
    for (const auto input : layer.inputs) last_reader[input] = i;
  }
  for (std::size_t i = 0; i < last_reader.size(); ++i) {
    if (i != network_.output) tensors_[last_reader[i]].last_read.push_back(i);
  }
  give_to_layers();
}

/// What each layer works with are the tensors that the model has.
void GraphModel::give_to_layers() {
  auto buffer = buffers_.begin();
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    tensors_[i].trained.clear();
    for (const auto parameter : layer.parameters) tensors_[i].trained.push_back(parameters_[parameter].tensor);
    if (!std::holds_alternative<layers::BatchNorm>(layer.operation)) continue;
    tensors_[i].kept.clear();
    for (int kept = 0; kept < 3; ++kept) tensors_[i].kept.push_back((buffer++)->tensor);
  }
}

void GraphModel::move_to(at::Device device) {
  for (auto& [name, tensor] : parameters_) tensor = tensor.detach().to(device).set_requires_grad(true);
  for (auto& [name, tensor] : buffers_) tensor = tensor.to(device);
  give_to_layers();
}

std::vector<bool> GraphModel::decays() const {
  std::vector<bool> list;
  for (const auto& parameter : network_.parameters) list.push_back(parameter.decays);
  return list;
}

at::Tensor GraphModel::forward(const at::Tensor& input) {
  std::vector<at::Tensor> outputs(network_.layers.size());
  outputs[0] = is_better_turned(input) ? turned(input) : input;
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    const Layer& layer = network_.layers[i];
    Operands operands{{}, tensors_[i].trained, tensors_[i].kept, training_};
    for (const auto read : layer.inputs) operands.inputs.push_back(outputs[read]);
    outputs[i] = run(layer.operation, std::move(operands));
    // Without this, evaluation would hold the outputs of all layers at once.
    for (const auto done : tensors_[i].last_read) outputs[done].reset();
  }
  return outputs[network_.output];
}

}  // namespace weir::training
