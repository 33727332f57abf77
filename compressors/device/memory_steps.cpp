#include "compressors/device/memory_steps.hpp"

#include <algorithm>

#include "compressors/device/launching.hpp"
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

Result<void> apply_momentum(const MomentumStep& step, at::Tensor& gradient, at::Tensor& momentum) {
  return cuda::apply_momentum({step.mu, step.scale, step.nesterov}, place<float>(gradient), place<float>(momentum),
                              size_of(gradient), current_handle(gradient));
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

Result<void> add_scaled(float weight, BytesView from, at::Tensor& to) {
  const at::Tensor above = bring_up(from, to);
  return cuda::add_scaled(weight, place<std::byte>(above), place<float>(to), size_of(to), current_handle(to));
}

Result<void> add_selection(float weight, const Selection& selection, at::Tensor& to) {
  const Selection* const one = &selection;
  const auto added = add_selections(weight, std::span(&one, 1), to);
  return added ? Result<void>() : added.error();
}

Result<at::Tensor> add_selections(float weight, std::span<const Selection* const> selections, at::Tensor& to) {
  std::size_t all = 0;
  for (const Selection* const selection : selections) all += selection->size();
  const std::size_t bytes = all * sizeof(std::uint32_t);
  static_assert(sizeof(float) == sizeof(std::uint32_t));
  // All positions, then all values: they come up together.
  const at::Tensor below = host_bytes(to, 2 * bytes);
  auto* position = place<std::uint32_t>(below);
  auto* value = reinterpret_cast<float*>(position + all);
  for (const Selection* const selection : selections) {
    position = std::ranges::copy(selection->positions, position).out;
    value = std::ranges::copy(selection->values, value).out;
  }
  const at::Tensor above = scratch(to, 2 * bytes);
  if (all > 0) above.copy_(below, /*non_blocking=*/true);
  const auto* positions = place<std::uint32_t>(above);
  const auto* values = reinterpret_cast<const float*>(positions + all);
  for (const Selection* const selection : selections) {
    auto added =
        cuda::add_selection(weight, positions, values, selection->size(), place<float>(to), current_handle(to));
    if (!added) return added.error();
    positions += selection->size();
    values += selection->size();
  }
  return above.narrow(0, 0, static_cast<std::int64_t>(bytes));
}

Result<void> clear_selection(std::span<const std::uint32_t> positions, at::Tensor& to) {
  if (positions.empty()) return {};
  return clear_selection(bring_up(positions, to), to);
}

Result<void> clear_selection(const at::Tensor& positions, at::Tensor& to) {
  return cuda::clear_selection(place<std::uint32_t>(positions), size_of(positions) / sizeof(std::uint32_t),
                               place<float>(to), current_handle(to));
}

}  // namespace weir::compressors::device
