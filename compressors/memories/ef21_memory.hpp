#pragma once

#include <optional>
#include <string>

#include "compressors/device/device.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// EF21 (Richtarik, Sokolov, Fatkhullin 2021): each rank keeps an estimate h of its gradient and sends the difference.
/// All ranks apply H, the mean of the estimates, which each of them keeps, too:
///
///     send g - h;   h += what was sent;   H += mean;   the optimizer gets H
///
/// h and H start from zero. With a contractive compressor h follows the gradient, and no residual piles up.
///
/// The noise of small batches does not average out in h. With `momentum` above zero, h is therefore an estimate of a
/// running mean of the gradients (EF21-SGDM: Fatkhullin, Tyurin, Richtarik 2023, whose eta is 1 - momentum), which
/// starts from the first gradient:
///
///     v = momentum * v + (1 - momentum) * g;   send v - h;   as above
///
/// This replaces the optimizer's momentum. A round in which the tensor goes dense sets h to its target (g or v) and H
/// to the mean of the targets. The gradient of a tensor that is never compressed is averaged over the ranks, and then
/// over time in the same way.
class Ef21Memory final : public Memory {
 public:
  static constexpr std::string_view type_name = "ef21";
  static constexpr std::string_view summary = "Sends the change since the estimate that the ranks share (EF21).";
  static constexpr MemoryTraits type_traits = {.reads_sent = true, .changes_mean = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  struct Options {
    double momentum = 0;
  };
  static protocol::Params<Options> params();
  explicit Ef21Memory(Options options) : options_(options) {}

  std::string_view name() const override { return type_name; }
  MemoryTraits traits() const override;
  Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) override;
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  /// The others have not got `values` of what h says that they have.
  bool add_unsent(const Round& round, std::uint64_t first, std::span<const float> values) override;
  bool takes_unsent() override { return true; }
  Result<void> update(const Round& round, const Sent& sent, at::Tensor& mean) override;
  Result<at::Tensor> compensate_dense(const at::Tensor& gradient, const Round& round) override;
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  /// The target of the estimate: the gradient, or the running mean updated with the gradient.
  Result<at::Tensor> target_of(const at::Tensor& gradient, const Round& round);

  Options options_;
  TensorStore own_{"own"};          ///< h
  TensorStore shared_{"shared"};    ///< H: beside the means
  TensorStore average_{"average"};  ///< v, with momentum only
  /// v - h from compensate() to update(). Kept only to reuse its memory, so it is not saved. One for each tensor,
  /// because all tensors of a bucket are compensated before the first of them is updated.
  TensorStore missing_{"missing"};
};

}  // namespace weir::compressors
