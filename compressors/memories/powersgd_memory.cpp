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
  auto residual = residuals_.of(round, gradient);
  if (!residual) return residual;
  if (!gradient.is_cpu()) {
    auto done = device::accumulate_residual(1, 1, gradient, *residual);
    return done ? residual : Result<at::Tensor>(done.error());
  }
  accumulate_residual(1, 1, flat(gradient), flat(*residual));
  return residual;
}

Result<void> PowerSgdMemory::update(const Round& round, const Sent&, at::Tensor& mean) {
  auto residual = residuals_.of(round, mean.sizes());
  if (!residual) return residual.error();
  if (!mean.is_cpu()) return device::accumulate_residual(1, -1, mean, *residual);
  if (!residual->is_cpu()) return device::add_scaled(-1, std::as_bytes(flat(std::as_const(mean))), *residual);
  accumulate_residual(1, -1, flat(std::as_const(mean)), flat(*residual));
  return {};
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
