#include "training/modes/own_step.hpp"

#include <ATen/ops/zeros_like.h>

#include <vector>

#include "training/optimizers/clip.hpp"

namespace weir::training {

Result<double> own_step(Replica& replica, Passes& passes, double rate) {
  auto loss = passes.run(rate);
  if (!loss) return loss;
  const auto& limits = replica.spec.training.clip;
  if (limits.norm || limits.value) clip(limits, gradients_of(*replica.model));
  std::vector<Mean> gradients;
  for (const auto& [name, tensor] : replica.model->parameters()) {
    const auto& gradient = tensor.grad();
    gradients.push_back({.tensor = gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor.detach()),
                         .sparse = false,
                         .positions = {}});
  }
  replica.optimizer->step(gradients, rate);
  for (const auto& parameter : replica.model->parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
  return loss;
}

Result<double> own_step(Replica& replica, Passes& passes) {
  auto loss = own_step(replica, passes, replica.learning_rate * replica.schedule->factor(replica.step));
  if (loss) ++replica.step;
  return loss;
}

}  // namespace weir::training
