#pragma once

#include "compressors/quantizers/signs.hpp"

namespace weir::compressors {

/// signSGD with majority vote (Bernstein et al., ICML 2018): sends the sign of every entry. The optimizer receives -1
/// or 1, so its learning rate is the length of a step. Wire format: signs.hpp.
class SignSgd final : public SignVote {
 public:
  static constexpr std::string_view type_name = "signsgd";
  static constexpr std::string_view summary = "The majority of the signs: one bit per entry, steps of one length.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.votes = true}; }

 protected:
  bool write(std::span<const float> values, const Extent& extent, const Round& round,
             std::span<std::byte> code) override;
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) override;
};

}  // namespace weir::compressors
