#include "compressors/device/memory_steps.hpp"

#include <algorithm>

#include "compressors/device/launching.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "cuda/kernels/selection.hpp"
#include "cuda/kernels/trits.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {
namespace {

/// Makes empty bins of those of all tensors, which then lie side by side.
template <class Of>
Result<void> make_bins(std::span<const Of> tensors) {
  if (tensors.empty() || tensors.front().bins == nullptr) return {};
  const at::Tensor& beside = tensors.front().gradient;
  const at::Tensor all = scratch(beside, tensors.size() * sizeof(cuda::Bins));
  constexpr std::int64_t bytes = sizeof(cuda::Bins);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    *tensors[i].bins = all.narrow(0, static_cast<std::int64_t>(i) * bytes, bytes);
  }
  return cuda::fill_bytes(place<std::byte>(all), tensors.size() * sizeof(cuda::Bins), std::byte{0},
                          current_handle(beside));
}

cuda::Bins* bins_of(const at::Tensor* bins) { return bins == nullptr ? nullptr : place<cuda::Bins>(*bins); }

}  // namespace

const cuda::Bins* counts_of(const at::Tensor& bins) { return bins.defined() ? place<cuda::Bins>(bins) : nullptr; }

Result<void> accumulate_residual(std::span<const ResidualOf> tensors) {
  if (auto made = make_bins(tensors); !made || tensors.empty()) return made;
  std::vector<cuda::ResidualOf> all;
  for (const auto& [beta, gamma, gradient, residual, bins, before] : tensors) {
    all.push_back({beta, gamma, place<float>(gradient), place<float>(residual), size_of(gradient), bins_of(bins),
                   before.defined() ? place<float>(before) : nullptr});
  }
  return cuda::accumulate_residual(all, current_handle(tensors.front().gradient));
}

Result<void> accumulate_residual(float beta, float gamma, const at::Tensor& gradient, const at::Tensor& residual) {
  const ResidualOf one{beta, gamma, gradient, residual};
  return accumulate_residual(std::span(&one, 1));
}

Result<void> accumulate_momentum(std::span<const MomentumOf> tensors) {
  if (auto made = make_bins(tensors); !made || tensors.empty()) return made;
  std::vector<cuda::MomentumOf> all;
  for (const auto& [step, gradient, momentum, velocity, bins] : tensors) {
    all.push_back({{step.mu, step.scale, step.nesterov},
                   place<float>(gradient),
                   place<float>(momentum),
                   place<float>(velocity),
                   size_of(gradient),
                   bins_of(bins)});
  }
  return cuda::accumulate_momentum(all, current_handle(tensors.front().gradient));
}

Result<void> apply_momentum(std::span<const MomentumAppliedTo> tensors) {
  if (tensors.empty()) return {};
  std::vector<cuda::MomentumAppliedTo> all;
  for (const auto& [step, gradient, momentum] : tensors) {
    all.push_back(
        {{step.mu, step.scale, step.nesterov}, place<float>(gradient), place<float>(momentum), size_of(gradient)});
  }
  return cuda::apply_momentum(all, current_handle(tensors.front().gradient));
}

Result<double> sum_of_squares(const at::Tensor& values) {
  const std::uint64_t entries = size_of(values);
  const at::Tensor parts = scratch(values, cuda::size_parts(entries) * sizeof(cuda::Size));
  const at::Tensor size = scratch(values, sizeof(cuda::Size));
  const cuda::SizeToFind it{place<float>(values), entries, place<cuda::Size>(parts), place<cuda::Size>(size)};
  if (auto found = cuda::find_sizes(std::span(&it, 1), current_handle(values)); !found) return found.error();
  return read<cuda::Size>(size).squares;
}

Result<void> subtract(const at::Tensor& a, const at::Tensor& b, at::Tensor& difference) {
  return cuda::subtract(place<float>(a), place<float>(b), place<float>(difference), size_of(difference),
                        current_handle(difference));
}

Result<void> add_scaled(float weight, BytesView from, at::Tensor& to) {
  const at::Tensor above = bring_up(from, to);
  return cuda::add_scaled(weight, place<std::byte>(above), place<float>(to), size_of(to), current_handle(to));
}

Result<std::vector<at::Tensor>> add_entries(float weight, std::span<const EntriesFor> entries) {
  std::size_t all = 0;
  std::size_t most = 0;  // selections for one tensor
  for (const EntriesFor& one : entries) {
    for (const Selection* const selection : one.selections) all += selection->size();
    most = std::max(most, one.selections.size());
  }
  if (entries.empty()) return std::vector<at::Tensor>();
  const at::Tensor& beside = entries.front().to;
  const std::size_t bytes = all * sizeof(std::uint32_t);
  static_assert(sizeof(float) == sizeof(std::uint32_t));
  // All positions, then all values: they come up together.
  const at::Tensor below = host_bytes(beside, 2 * bytes);
  const at::Tensor above = scratch(beside, 2 * bytes);
  auto* position = place<std::uint32_t>(below);
  auto* value = reinterpret_cast<float*>(position + all);
  std::vector<std::vector<cuda::Entries>> rounds(
      most);  // the selections that are each the first, second... of a tensor
  std::vector<at::Tensor> positions;
  std::size_t at = 0;
  for (const auto& [selections, to] : entries) {
    const std::size_t begin = at;
    for (std::size_t i = 0; i < selections.size(); ++i) {
      const Selection& selection = *selections[i];
      position = std::ranges::copy(selection.positions, position).out;
      value = std::ranges::copy(selection.values, value).out;
      const auto* const of_positions = place<std::uint32_t>(above) + at;
      const auto* const of_values = reinterpret_cast<const float*>(of_positions + all);
      rounds[i].push_back({of_positions, selection.size(), place<float>(to), of_values, weight});
      at += selection.size();
    }
    constexpr std::int64_t size = sizeof(std::uint32_t);
    positions.push_back(
        above.narrow(0, static_cast<std::int64_t>(begin) * size, static_cast<std::int64_t>(at - begin) * size));
  }
  if (all > 0) above.copy_(below, /*non_blocking=*/true);
  for (const auto& round : rounds) {
    if (auto added = cuda::add_selection(round, current_handle(beside)); !added) return added.error();
  }
  return positions;
}

Result<void> add_selection(float weight, const Selection& selection, at::Tensor& to) {
  const EntriesFor one{{&selection}, to};
  const auto added = add_entries(weight, std::span(&one, 1));
  return added ? Result<void>() : added.error();
}

Result<void> clear_entries(std::span<const PositionsIn> entries) {
  if (entries.empty()) return {};
  std::vector<cuda::Entries> all;
  for (const auto& [positions, to] : entries) {
    all.push_back({.positions = place<std::uint32_t>(positions),
                   .n = size_of(positions) / sizeof(std::uint32_t),
                   .to = place<float>(to)});
  }
  return cuda::clear_selection(all, current_handle(entries.front().to));
}

}  // namespace weir::compressors::device
