#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compressors/device/device.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/peak_store.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// DGC's momentum correction (Lin et al., ICLR 2018): momentum is accumulated before compression, and the residual is a
/// velocity instead of a gradient.
///
///     plain:     m = mu * m + g;    v += m          nesterov:  m = mu * (m + g);  v += m + g
///     send v;    v -= what was sent;  with masking, at the entries sent: m = 0
///
/// After a round, v is zero at entries that were sent exactly, and keeps the rounding error of a value codec. The
/// optimizer must not apply momentum again. A tensor sent dense gets the same momentum after averaging, without masking
/// and velocity. As long as a tensor has only been sent dense, its momentum is the same on all ranks. Later, when a
/// rank has momentum and velocity of its own, a dense round sends all of the velocity and masks nothing.
///
/// Gradients are clipped first, each tensor on its own: the mean over the ranks to the norm clip_norm, one rank's own
/// gradient to sqrt(ranks) * clip_norm, because the mean of independent gradients is sqrt(ranks) times shorter than
/// they are. This is the scale of the paper, whose limit of clip_norm / sqrt(ranks) is for gradients that are divided
/// by the number of ranks before they are summed. The paper clips by the norm of all tensors together, which is known
/// only after the backward pass, so that nothing could be sent during it.
class DgcMemory final : public Memory {
 public:
  static constexpr std::string_view type_name = "dgc";
  static constexpr std::string_view summary = "Momentum correction with factor masking and local clipping (DGC).";
  static constexpr MemoryTraits type_traits = {.owns_momentum = true, .reads_sent = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  struct Options {
    bool momentum_masking = true;
    std::optional<double> clip_norm = std::nullopt;
  };
  static protocol::Params<Options> params();
  DgcMemory(Options options, const MemorySetting& setting) : options_(options), setting_(setting) {}

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
  Result<at::Tensor> compensate_dense(const at::Tensor& gradient, const Round& round) override;
  TensorStore* unsent() override { return &velocities_; }
  TensorStore* momenta() override { return &momenta_; }
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  Result<void> average_dense_all(std::span<at::Tensor> means, std::span<const Round> rounds) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  /// The factor that scales a gradient to a norm of at most `limits` times clip_norm; 1 if it is not longer than that.
  /// Of one on a device it waits for the norm.
  Result<float> clip_scale(const at::Tensor& gradient, double limits) const;

  /// What is done to a gradient.
  struct Step {
    at::Tensor momentum;
    at::Tensor velocity;
    MomentumStep step;
  };
  Result<Step> step_of(const at::Tensor& gradient, const Round& round);

  Options options_;
  MemorySetting setting_;
  TensorStore momenta_{"momentum"};
  TensorStore velocities_{"velocity"};
  PeakStore peaks_;  ///< of the velocities
};

}  // namespace weir::compressors
