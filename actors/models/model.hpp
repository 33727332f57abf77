#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "compressors/compressor.hpp"

namespace weir::actors {

using compressors::NamedTensor;

/// A network under training. Owned and used by one thread; made by the catalog with parameters that depend on
/// the seed alone, so that all ranks start equal.
class Model {
 public:
  virtual ~Model() = default;

  /// [count, channels, height, width] to logits [count, classes].
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// The trained tensors, in the order of the network, aliasing the live ones.
  virtual std::vector<NamedTensor> parameters() const = 0;

  /// Tensors that are kept but not trained (running statistics), aliasing the live ones. Each rank has its own.
  virtual std::vector<NamedTensor> buffers() const = 0;

  /// Whether layers behave as in training (dropout, batch statistics) or as in use.
  virtual void set_training(bool training) = 0;
};

/// Parameters and buffers.
std::vector<NamedTensor> state_of(const Model& model);

}  // namespace weir::actors
