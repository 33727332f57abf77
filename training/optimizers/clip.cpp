#include "training/optimizers/clip.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <vector>

#include "training/optimizers/norm.hpp"

namespace weir::training {
namespace {

/// What to multiply gradients by whose norm is to be at most `most`, beside them.
at::Tensor factor_of(std::span<const at::Tensor> gradients, double most) {
  const at::Tensor norm = sum_by_halves(sums_of_squares(gradients)).sqrt();
  const at::Tensor limit = at::full_like(norm, most);
  const at::Tensor is_limited = norm.isfinite().logical_and(norm.gt(limit));
  return at::where(is_limited, limit.div(norm), at::ones_like(norm)).to(at::kFloat);
}

}  // namespace

void clip(const protocol::JobSpec::Clip& limits, std::span<const at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> defined;
  for (const auto& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (limits.value) gradient.clamp_(-*limits.value, *limits.value);
    defined.push_back(gradient);
  }
  if (!limits.norm || defined.empty()) return;
  const at::Tensor factor = factor_of(defined, *limits.norm);
  // On a device everything is multiplied, also by one, rather than that the host waits for the factor.
  if (factor.is_cpu() && factor.item<float>() == 1) return;
  for (const auto& gradient : defined) gradient.mul_(factor);
}

}  // namespace weir::training
