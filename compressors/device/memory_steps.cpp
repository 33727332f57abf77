#include "compressors/device/memory_steps.hpp"

#include "compressors/device/launching.hpp"
#include "compressors/flat.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "cuda/kernels/selection.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {
namespace {

/// Empty bins beside a tensor; null if none are wanted.
Result<cuda::Bins*> cleared(at::Tensor* bins, const at::Tensor& beside) {
  if (bins == nullptr) return nullptr;
  if (!bins->defined() || bins->device() != beside.device()) *bins = scratch(beside, sizeof(cuda::Bins));
  auto* const at = place<cuda::Bins>(*bins);
  auto done =
      cuda::fill_bytes(reinterpret_cast<std::byte*>(at), sizeof(cuda::Bins), std::byte{0}, current_handle(beside));
  return done ? Result<cuda::Bins*>(at) : done.error();
}

}  // namespace

const cuda::Bins* counts_of(const at::Tensor& bins) { return bins.defined() ? place<cuda::Bins>(bins) : nullptr; }

Result<void> accumulate_residual(float beta, float gamma, const at::Tensor& gradient, at::Tensor& residual,
                                 at::Tensor* bins) {
  const auto counts = cleared(bins, gradient);
  if (!counts) return counts.error();
  return cuda::accumulate_residual(beta, gamma, place<float>(gradient), place<float>(residual), size_of(gradient),
                                   *counts, current_handle(gradient));
}

Result<void> accumulate_momentum(const MomentumStep& step, const at::Tensor& gradient, at::Tensor& momentum,
                                 at::Tensor& velocity, at::Tensor* bins) {
  const auto counts = cleared(bins, gradient);
  if (!counts) return counts.error();
  return cuda::accumulate_momentum({step.mu, step.scale, step.nesterov}, place<float>(gradient), place<float>(momentum),
                                   place<float>(velocity), size_of(gradient), *counts, current_handle(gradient));
}

Result<double> sum_of_squares(const at::Tensor& values) {
  const std::uint64_t entries = size_of(values);
  const at::Tensor parts = scratch(values, cuda::square_sum_parts(entries) * sizeof(double));
  const at::Tensor sum = scratch(values, sizeof(double));
  auto done = cuda::sum_of_squares(place<float>(values), entries, place<double>(parts), place<double>(sum),
                                   current_handle(values));
  if (!done) return done.error();
  return read<double>(sum);
}

Result<void> subtract(const at::Tensor& a, const at::Tensor& b, at::Tensor& difference) {
  return cuda::subtract(place<float>(a), place<float>(b), place<float>(difference), size_of(difference),
                        current_handle(difference));
}

Result<void> add_scaled(float weight, const at::Tensor& from, at::Tensor& to) {
  const at::Tensor above = bring_up(std::span<const float>(flat(from)), to);
  return cuda::add_scaled(weight, place<std::byte>(above), place<float>(to), size_of(to), current_handle(to));
}

Result<void> add_selection(float weight, const Selection& selection, at::Tensor& to) {
  if (selection.size() == 0) return {};
  const at::Tensor positions = bring_up<std::uint32_t>(selection.positions, to);
  const at::Tensor values = bring_up<float>(selection.values, to);
  return cuda::add_selection(weight, place<std::uint32_t>(positions), place<float>(values), selection.size(),
                             place<float>(to), current_handle(to));
}

Result<void> clear_selection(std::span<const std::uint32_t> positions, at::Tensor& to) {
  if (positions.empty()) return {};
  const at::Tensor above = bring_up(positions, to);
  return cuda::clear_selection(place<std::uint32_t>(above), positions.size(), place<float>(to), current_handle(to));
}

}  // namespace weir::compressors::device
