#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/compressor.hpp"

namespace weir::training {

using compressors::NamedTensor;

/// A network in training. Owned and used by one thread. The catalog makes it with parameters that depend only on the
/// seed, so that all ranks start equal.
class Model {
 public:
  virtual ~Model() = default;

  /// Maps images [count, channels, height, width] to logits [count, classes], or texts [count, tokens] of integers to
  /// logits [count, classes, tokens].
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// The trained tensors, in the order of the network. They alias the live ones.
  virtual std::vector<NamedTensor> parameters() const = 0;

  /// Of each parameter, whether weight decay applies to it in an optimizer that spares some (no_decay).
  virtual std::vector<bool> decays() const = 0;

  /// Tensors that are kept but not trained (running statistics). They alias the live ones. Each rank has its own.
  virtual std::vector<NamedTensor> buffers() const = 0;
  /// Those of them that follow the examples a rank has seen, so that the mean of all ranks' can stand for each: by
  /// default all of 32-bit floats.
  virtual std::vector<NamedTensor> statistics() const;

  /// Moves parameters and buffers, with which forward() computes, to a device. To be called before anything refers to
  /// them.
  virtual void move_to(at::Device device) = 0;

  /// Whether layers (dropout, batch statistics) behave as in training or as in evaluation.
  virtual void set_training(bool training) = 0;
};

/// Checks that tensors of a model are those of before, as far as they are of the same names, shapes and types: a module
/// of somebody's own may replace its buffers. Fails with: conflict.
Result<void> expect_alike(std::span<const NamedTensor> now, std::span<const NamedTensor> before);

/// Parameters, then buffers.
std::vector<NamedTensor> state_of(const Model& model);

}  // namespace weir::training
