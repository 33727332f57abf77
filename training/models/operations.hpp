#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "training/models/network.hpp"

namespace weir::training {

/// What an operation works on.
struct Operands {
  std::vector<at::Tensor> inputs;
  std::span<const at::Tensor> trained;  ///< in the order of Layer::parameters
  std::span<at::Tensor> kept;           ///< of a batch normalisation: running mean, running variance, count of batches
  bool training = true;
};

/// The output of an operation for a batch of examples: the first dimension of each input counts them.
at::Tensor run(const layers::Operation& operation, Operands operands);

}  // namespace weir::training
