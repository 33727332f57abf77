#include "compressors/memories/residual_memory.hpp"

#include <utility>

#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {

protocol::Params<ResidualMemory::Options> ResidualMemory::params() {
  return protocol::Params<Options>()
      .number("beta", &Options::beta, {.minimum = 0.0, .maximum = 1.0}, "Share of the residual that is kept.")
      .number("gamma", &Options::gamma, {.exclusive_minimum = 0.0, .maximum = 1.0}, "Weight of the new gradient.");
}

std::optional<std::string> ResidualMemory::misfit(const Compressor& compressor) { return no_residual(compressor); }

Result<at::Tensor> ResidualMemory::compensate(const at::Tensor& gradient, const Round& round) {
  if (!gradient.is_cpu()) return compensate_by_all(gradient, round);
  auto residual = residuals_.of(round, gradient);
  if (!residual) return residual;
  const auto beta = static_cast<float>(options_.beta);
  const auto gamma = static_cast<float>(options_.gamma);
  const auto g = flat(gradient);
  const auto r = flat(*residual);
  const auto peaks = peaks_.room(round, g.size());
  parallel_for_ranges(g.size(), peak_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    accumulate_residual(beta, gamma, g.subspan(begin, count), r.subspan(begin, count),
                        peaks.subspan(begin / peak_block, peaks_of(count)));
  });
  return residual;
}

Result<void> ResidualMemory::compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                            std::vector<at::Tensor>& out) {
  if (gradients.empty() || gradients.front().is_cpu()) return Memory::compensate_all(gradients, rounds, out);
  if (auto found = residuals_.all_beside(rounds, gradients, out); !found) return found;
  std::vector<device::ResidualOf> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    all.push_back({static_cast<float>(options_.beta), static_cast<float>(options_.gamma), gradients[i], out[i],
                   &peaks_.room_for_bins(rounds[i])});
  }
  return device::accumulate_residual(all);
}

Result<void> ResidualMemory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  auto residual = residuals_.of(round, mean.sizes());
  if (!residual) return residual.error();
  return sent.add_to(*residual, -1);
}

Result<void> ResidualMemory::update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                        std::span<at::Tensor> means) {
  std::vector<at::Tensor> residuals;
  auto found = residuals_.all_of(rounds, means, residuals);
  return found ? Sent::add_all_to(residuals, sent, -1) : found;
}

Result<void> ResidualMemory::average_dense(at::Tensor&, const Round& round) {
  residuals_.clear(round);
  return {};
}

std::vector<NamedTensor> ResidualMemory::save() const {
  std::vector<NamedTensor> state;
  residuals_.save(state);
  return state;
}

}  // namespace weir::compressors
