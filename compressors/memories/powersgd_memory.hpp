#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compressors/device/device.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"

namespace weir::compressors {

/// Error feedback against the mean that the ranks agreed on (Vogels et al. 2019, Algorithm 2):
///
///     send r + g;   r = r + g - mean
///
/// The ranks' residuals differ by the sum of all past differences between their gradients; only the mean of the
/// residuals stays small. That is harmless if the result is a function of the mean alone (Traits::mean_only), and saves
/// decoding the rank's own payload. If each rank's payload depends on its own large entries, the payloads would fill up
/// with differences that cancel. This happens with gathered payloads, with chunks chosen by the sum of the ranks'
/// norms, and with sums of 16-bit numbers, whose rounding error depends on the size of the rank's own residual. A round
/// in which the tensor goes dense sends everything: r = 0.
class PowerSgdMemory final : public Memory {
 public:
  static constexpr std::string_view type_name = "powersgd";
  static constexpr std::string_view summary = "Error feedback against the mean that the ranks agreed on.";
  static constexpr MemoryTraits type_traits = {.reckons_with_mean = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  std::string_view name() const override { return type_name; }
  MemoryTraits traits() const override { return type_traits; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) override;
  Result<void> compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                              std::vector<at::Tensor>& out) override;
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  Result<void> update(const Round& round, const Sent& sent, at::Tensor& mean) override;
  Result<void> update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                          std::span<at::Tensor> means) override;
  TensorStore* unsent() override { return &residuals_; }
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override { return restore_stores(state, {&residuals_}); }

 private:
  TensorStore residuals_{"residual"};
};

}  // namespace weir::compressors
