#include "compressors/memories/powersgd_memory.hpp"

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"

namespace weir::compressors {

std::optional<std::string> PowerSgdMemory::misfit(const Compressor& compressor) {
  if (auto reason = no_mean_residual(compressor)) return reason;
  if (!compressor.traits().mean_only) {
    return "what it sends depends on each rank's own residual, and those drift apart when the mean is taken off";
  }
  return std::nullopt;
}

Result<at::Tensor> PowerSgdMemory::compensate(const at::Tensor& gradient, const Round& round) {
  if (!gradient.is_cpu()) return compensate_by_all(gradient, round);
  auto residual = residuals_.of(round, gradient);
  if (residual) accumulate_residual(1, 1, flat(gradient), flat(*residual));
  return residual;
}

Result<void> PowerSgdMemory::compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                            std::vector<at::Tensor>& out) {
  if (gradients.empty() || gradients.front().is_cpu()) return Memory::compensate_all(gradients, rounds, out);
  if (auto found = residuals_.all_beside(rounds, gradients, out); !found) return found;
  std::vector<device::ResidualOf> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) all.push_back({1, 1, gradients[i], out[i]});
  return device::accumulate_residual(all);
}

Result<void> PowerSgdMemory::update(const Round& round, const Sent&, at::Tensor& mean) {
  auto residual = residuals_.of(round, mean.sizes());
  if (!residual) return residual.error();
  if (!mean.is_cpu()) return device::accumulate_residual(1, -1, mean, *residual);
  if (!residual->is_cpu()) return device::add_scaled(-1, std::as_bytes(flat(std::as_const(mean))), *residual);
  accumulate_residual(1, -1, flat(std::as_const(mean)), flat(*residual));
  return {};
}

Result<void> PowerSgdMemory::update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                        std::span<at::Tensor> means) {
  if (means.empty() || means.front().is_cpu()) return Memory::update_all(rounds, sent, means);
  std::vector<at::Tensor> residuals;
  if (auto found = residuals_.all_beside(rounds, means, residuals); !found) return found;
  std::vector<device::ResidualOf> all;
  for (std::size_t i = 0; i < rounds.size(); ++i) all.push_back({1, -1, means[i], residuals[i]});
  return device::accumulate_residual(all);
}

Result<void> PowerSgdMemory::average_dense(at::Tensor&, const Round& round) {
  residuals_.clear(round);
  return {};
}

std::vector<NamedTensor> PowerSgdMemory::save() const {
  std::vector<NamedTensor> state;
  residuals_.save(state);
  return state;
}

}  // namespace weir::compressors
