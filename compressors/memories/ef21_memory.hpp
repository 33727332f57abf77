#pragma once

#include <optional>
#include <string>

#include "compressors/memories/tensor_store.hpp"
#include "compressors/memory.hpp"

namespace weir::compressors {

/// EF21 (Richtarik, Sokolov, Fatkhullin 2021): each rank keeps an estimate h of its gradient, sends what is missing in
/// it, and all apply the mean of the estimates, H, which is kept too:
///
///     send g - h;   h += what was sent;   H += mean;   the optimizer gets H
///
/// With a compressor that contracts, h follows the gradient, and nothing that was held back piles up. Both start from
/// zero. A round in which the tensor goes dense makes h the gradient and H the mean of them.
class Ef21Memory final : public Memory {
 public:
  static constexpr std::string_view type_name = "ef21";
  static constexpr std::string_view summary = "Sends the change since the estimate that the ranks share (EF21).";
  static constexpr MemoryTraits type_traits = {.reads_payload = true};
  static std::optional<std::string> misfit(const Compressor& compressor);

  std::string_view name() const override { return type_name; }
  MemoryTraits traits() const override { return type_traits; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) override;
  Result<void> update(const Round& round, Compressor& compressor, BytesView payload, at::Tensor& mean) override;
  Result<at::Tensor> compensate_dense(const at::Tensor& gradient, const Round& round) override;
  Result<void> average_dense(at::Tensor& mean, const Round& round) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  TensorStore own_{"own"};        ///< h
  TensorStore shared_{"shared"};  ///< H
};

}  // namespace weir::compressors
