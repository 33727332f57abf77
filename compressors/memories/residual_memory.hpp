#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compressors/device/device.hpp"
#include "compressors/memories/peak_store.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Error feedback (Seide et al. 2014; Karimireddy et al. 2019): what a round did not send is added to the next one,
///
///     sent = C(beta * r + gamma * g);  r = beta * r + gamma * g - sent
///
/// The residual is updated by decoding the rank's own payload with weight -1. For a sparse payload that touches only
/// the entries sent, and rounding errors of a codec stay in the residual. A round in which the tensor goes dense sends
/// everything: r = 0.
class ResidualMemory final : public Memory {
 public:
  static constexpr std::string_view type_name = "residual";
  static constexpr std::string_view summary = "Error feedback: what is not sent is added to the next round.";
  static constexpr MemoryTraits type_traits = {.reads_sent = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  struct Options {
    double beta = 1;
    double gamma = 1;
  };
  static protocol::Params<Options> params();
  explicit ResidualMemory(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  MemoryTraits traits() const override { return type_traits; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) override;
  Result<void> compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                              std::vector<at::Tensor>& out) override;
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  Peaks peaks(const Round& round) const override { return peaks_.of(round); }
  const cuda::Bins* bins(const Round& round) const override { return peaks_.bins_of(round); }
  Result<void> update(const Round& round, const Sent& sent, at::Tensor& mean) override;
  Result<void> update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                          std::span<at::Tensor> means) override;
  TensorStore* unsent() override { return &residuals_; }
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override { return restore_stores(state, {&residuals_}); }

 private:
  Options options_;
  TensorStore residuals_{"residual"};
  PeakStore peaks_;
};

}  // namespace weir::compressors
