#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "training/optimizers/optimizer.hpp"

namespace weir::training::testing {

/// One step of an optimizer with one parameter.
inline void step(Optimizer& optimizer, const at::Tensor& mean, double learning_rate) {
  std::vector<Mean> means{{.tensor = mean, .sparse = false, .positions = {}}};
  optimizer.step(means, learning_rate);
}

}  // namespace weir::training::testing
