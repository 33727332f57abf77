#include "compressors/memories/dgc_memory.hpp"

#include <cmath>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {

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

Result<at::Tensor> DgcMemory::compensate(const at::Tensor& gradient, const Round& round) {
  auto momentum = momenta_.of(round, gradient);
  if (!momentum) return momentum;
  auto velocity = velocities_.of(round, gradient);
  if (!velocity) return velocity;
  const auto scale = clip_scale(gradient, std::sqrt(static_cast<double>(round.world)));
  if (!scale) return scale.error();
  const MomentumStep step{static_cast<float>(setting_.momentum), *scale, setting_.nesterov};
  if (!gradient.is_cpu()) {
    auto done = device::accumulate_momentum(step, gradient, *momentum, *velocity, &peaks_.room_for_bins(round));
    return done ? velocity : Result<at::Tensor>(done.error());
  }
  const auto g = flat(gradient);
  const auto m = flat(*momentum);
  const auto v = flat(*velocity);
  const auto peaks = peaks_.room(round, g.size());
  parallel_for_ranges(g.size(), peak_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    accumulate_momentum(step, g.subspan(begin, count), m.subspan(begin, count), v.subspan(begin, count),
                        peaks.subspan(begin / peak_block, peaks_of(count)));
  });
  return velocity;
}

Result<void> DgcMemory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  auto velocity = velocities_.of(round, mean.sizes());
  if (!velocity) return velocity.error();
  auto momentum = momenta_.of(round, mean.sizes());
  if (!momentum) return momentum.error();
  if (auto taken = sent.add_to(*velocity, -1); !taken || !options_.momentum_masking) {
    return taken;
  }
  if (!momentum->is_cpu()) return device::clear_selection(sent.positions(), *momentum);
  const std::span<float> m = flat(*momentum);
  for (const std::uint32_t at : sent.positions()) m[at] = 0;
  return {};
}

Result<at::Tensor> DgcMemory::compensate_dense(const at::Tensor& gradient, const Round& round) {
  if (!velocities_.find(round)) return gradient;
  return compensate(gradient, round);
}

Result<void> DgcMemory::average_dense(at::Tensor& mean, const Round& round) {
  if (velocities_.find(round)) {
    velocities_.clear(round);
    return {};
  }
  auto momentum = momenta_.of(round, mean);
  if (!momentum) return momentum.error();
  const auto scale = clip_scale(mean, 1);
  if (!scale) return scale.error();
  const MomentumStep step{static_cast<float>(setting_.momentum), *scale, setting_.nesterov};
  if (!mean.is_cpu()) return device::apply_momentum(step, mean, *momentum);
  apply_momentum(step, flat(mean), flat(*momentum));
  return {};
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
