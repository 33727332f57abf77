#include "compressors/memories/dgc_memory.hpp"

#include <cmath>
#include <utility>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {
namespace {

/// How many times the limit of a mean's norm one rank's own gradient may have: as much as the mean of independent ones
/// is shorter.
double limit_alone(const Round& round) { return std::sqrt(static_cast<double>(round.world)); }

}  // namespace

protocol::Params<DgcMemory::Options> DgcMemory::params() {
  return protocol::Params<Options>()
      .flag("momentum_masking", &Options::momentum_masking,
            "Forget the momentum of the entries that were sent, so that it does not pull in an old "
            "direction.")
      .optional_number("clip_norm", &Options::clip_norm, {.exclusive_minimum = 0.0},
                       "Clip each tensor's mean gradient to this norm, and one rank's own to the square root of "
                       "the number of ranks times it. Null: no clipping.");
}

std::optional<std::string> DgcMemory::misfit(const Compressor& compressor) {
  if (!compressor.traits().sparse)
    return "it does not say which entries it sent, whose velocity would have to be cleared";
  // The velocity not sent yet is a residual, so the rules for residuals apply, too.
  return no_residual(compressor);
}

Result<DgcMemory::Step> DgcMemory::step_of(const at::Tensor& gradient, const Round& round) {
  auto momentum = momenta_.of(round, gradient);
  if (!momentum) return momentum.error();
  auto velocity = velocities_.of(round, gradient);
  if (!velocity) return velocity.error();
  const auto scale = clip_scale(gradient, limit_alone(round));
  if (!scale) return scale.error();
  return Step{
      std::move(*momentum), std::move(*velocity), {static_cast<float>(setting_.momentum), *scale, setting_.nesterov}};
}

Result<at::Tensor> DgcMemory::compensate(const at::Tensor& gradient, const Round& round) {
  if (!gradient.is_cpu()) return compensate_by_all(gradient, round);
  auto step = step_of(gradient, round);
  if (!step) return step.error();
  const auto g = flat(gradient);
  const auto m = flat(step->momentum);
  const auto v = flat(step->velocity);
  const auto peaks = peaks_.room(round, g.size());
  parallel_for_ranges(g.size(), peak_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    accumulate_momentum(step->step, g.subspan(begin, count), m.subspan(begin, count), v.subspan(begin, count),
                        peaks.subspan(begin / peak_block, peaks_of(count)));
  });
  return std::move(step->velocity);
}

Result<void> DgcMemory::compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                       std::vector<at::Tensor>& out) {
  if (gradients.empty() || gradients.front().is_cpu()) return Memory::compensate_all(gradients, rounds, out);
  out.clear();
  std::vector<device::MomentumOf> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto step = step_of(gradients[i], rounds[i]);
    if (!step) return step.error();
    all.push_back({step->step, gradients[i], step->momentum, step->velocity, &peaks_.room_for_bins(rounds[i])});
    out.push_back(step->velocity);
  }
  return device::accumulate_momentum(all);
}

Result<void> DgcMemory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  auto velocity = velocities_.of(round, mean.sizes());
  if (!velocity) return velocity.error();
  auto momentum = momenta_.of(round, mean.sizes());
  if (!momentum) return momentum.error();
  if (!velocity->is_cpu()) return update_all(std::span(&round, 1), std::span(&sent, 1), std::span(&mean, 1));
  if (auto taken = sent.add_to(*velocity, -1); !taken || !options_.momentum_masking) return taken;
  const std::span<float> m = flat(*momentum);
  for (const std::uint32_t at : sent.positions()) m[at] = 0;
  return {};
}

Result<void> DgcMemory::update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                   std::span<at::Tensor> means) {
  std::vector<at::Tensor> velocities;
  if (auto found = velocities_.all_of(rounds, means, velocities); !found) return found;
  if (velocities.empty() || velocities.front().is_cpu()) return Memory::update_all(rounds, sent, means);
  std::vector<device::EntriesFor> taken;
  for (std::size_t i = 0; i < rounds.size(); ++i) taken.push_back({sent[i].selections(), velocities[i]});
  const auto positions = device::add_entries(-1, taken);
  if (!positions) return positions.error();
  if (!options_.momentum_masking) return {};
  std::vector<at::Tensor> momenta;
  if (auto found = momenta_.all_of(rounds, means, momenta); !found) return found;
  std::vector<device::PositionsIn> masked;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(sent[i].positions().size_bytes());
    masked.push_back({(*positions)[i].narrow(0, 0, bytes), momenta[i]});
  }
  return device::clear_entries(masked);
}

Result<at::Tensor> DgcMemory::compensate_dense(const at::Tensor& gradient, const Round& round) {
  if (!velocities_.find(round)) return gradient;
  return compensate(gradient, round);
}

Result<void> DgcMemory::average_dense(at::Tensor& mean, const Round& round) {
  return average_dense_all(std::span(&mean, 1), std::span(&round, 1));
}

Result<void> DgcMemory::average_dense_all(std::span<at::Tensor> means, std::span<const Round> rounds) {
  std::vector<device::MomentumAppliedTo> on_device;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (velocities_.find(rounds[i])) {
      velocities_.clear(rounds[i]);
      continue;
    }
    auto momentum = momenta_.of(rounds[i], means[i]);
    if (!momentum) return momentum.error();
    const auto scale = clip_scale(means[i], rounds[i].alone ? limit_alone(rounds[i]) : 1);
    if (!scale) return scale.error();
    const MomentumStep step{static_cast<float>(setting_.momentum), *scale, setting_.nesterov};
    if (means[i].is_cpu()) {
      apply_momentum(step, flat(means[i]), flat(*momentum));
    } else {
      on_device.push_back({step, means[i], *momentum});
    }
  }
  return on_device.empty() ? Result<void>() : device::apply_momentum(on_device);
}

std::vector<NamedTensor> DgcMemory::save() const {
  std::vector<NamedTensor> state;
  momenta_.save(state);
  velocities_.save(state);
  return state;
}

Result<void> DgcMemory::restore(std::span<const NamedTensor> state) {
  return restore_stores(state, {&momenta_, &velocities_});
}

Result<float> DgcMemory::clip_scale(const at::Tensor& gradient, double limits) const {
  if (!options_.clip_norm) return 1;
  const double limit = limits * *options_.clip_norm;
  const auto squares = gradient.is_cpu() ? sum_of_squares(flat(gradient)) : device::sum_of_squares(gradient);
  if (!squares) return squares.error();
  const double norm = std::sqrt(*squares);
  return norm > limit ? static_cast<float>(limit / norm) : 1.0F;
}

}  // namespace weir::compressors
