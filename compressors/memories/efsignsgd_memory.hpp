#pragma once

#include <optional>
#include <string>

#include "compressors/device/device.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// Error feedback in units of the weights (Karimireddy et al., ICML 2019), so that the residual keeps its effect on the
/// weights when the learning rate changes:
///
///     p = g + beta * e / lr;  send C(p);  e = lr * (p - sent)
///
/// In the paper beta is 1. With beta below 1, e is a momentum of steps (DeMo): it accumulates lr * p = beta * e + lr *
/// g. The part that is taken out of it is sent as C(p), divided by lr, and the optimizer multiplies by lr again.
///
/// The memory stores the residual r = e / lr and the learning rate by which it was divided: p = g + beta * (last lr /
/// lr) * r. While the learning rate is constant, this is the memory `residual`. In a step whose learning rate is zero
/// nothing reaches the weights: the gradient is sent as it is, and the residual stays. Any other round in which the
/// tensor goes dense sends everything: r = 0.
class EfSignSgdMemory final : public Memory {
 public:
  static constexpr std::string_view type_name = "efsignsgd";
  static constexpr std::string_view summary = "Error feedback of the weights' steps: the learning rate may change.";
  static constexpr MemoryTraits type_traits = {.reads_sent = true, .follows_learning_rate = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  struct Options {
    double beta = 1;
  };
  static protocol::Params<Options> params();
  explicit EfSignSgdMemory(Options options) : options_(options) {}

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
  TensorStore* unsent_rates() override { return &learning_rates_; }
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  Result<at::Tensor> learning_rate_of(const Round& round);
  /// The share of the residual that is kept, and notes the learning rate; none where that is zero.
  Result<std::optional<float>> share_kept(const Round& round);

  Options options_;
  TensorStore residuals_{"residual"};
  TensorStore learning_rates_{"learning_rate"};  // one number per tensor; zero: no residual yet
};

}  // namespace weir::compressors
