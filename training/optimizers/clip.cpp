#include "training/optimizers/clip.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "training/device.hpp"
#include "training/optimizers/norm.hpp"

namespace weir::training {

void clip(const protocol::JobSpec::Clip& limits, std::span<const at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (limits.value) gradient.clamp_(-*limits.value, *limits.value);
    if (!limits.norm) continue;
    const at::Tensor entries = on_host(gradient).contiguous();
    squares += sum_of_squares({entries.data_ptr<float>(), static_cast<std::size_t>(entries.numel())});
  }
  if (!limits.norm) return;
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= *limits.norm) return;
  for (const auto& gradient : gradients) {
    if (gradient.defined()) gradient.mul_(*limits.norm / norm);
  }
}

}  // namespace weir::training
