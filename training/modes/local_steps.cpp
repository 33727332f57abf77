#include "training/modes/local_steps.hpp"

#include <ATen/ops/zeros_like.h>

#include <vector>

#include "training/optimizers/clip.hpp"

namespace weir::training {

Result<double> LocalSteps::make(double learning_rate) {
  const auto loss = passes_.run(learning_rate);
  if (!loss) return loss;
  const auto& limits = replica_.spec.training.clip;
  if (limits.norm || limits.value) clip(limits, gradients_of(*replica_.model));
  std::vector<Mean> means;
  for (const auto& [name, tensor] : replica_.model->parameters()) {
    const auto& gradient = tensor.grad();
    means.push_back({.tensor = gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor.detach()),
                     .sparse = false,
                     .positions = {}});
  }
  replica_.optimizer->step(means, learning_rate);
  for (const auto& parameter : replica_.model->parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
  return loss;
}

}  // namespace weir::training
