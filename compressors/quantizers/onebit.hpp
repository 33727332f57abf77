#pragma once

#include "compressors/quantizers/signs.hpp"

namespace weir::compressors {

/// 1-bit SGD (Seide et al., Interspeech 2014), with the threshold at zero and a tensor as one column: entries that are
/// not below zero become their mean, and entries below zero become theirs. Biased. The mean is the best single value
/// for each half, so the error is at most that of scaled signs: (1 - 1/n) |x|^2. Wire format: signs.hpp.
class OneBit final : public TwoValues {
 public:
  static constexpr std::string_view type_name = "onebit";
  static constexpr std::string_view summary = "One bit per entry: the mean of the positive or of the negative ones.";
  static constexpr std::string_view default_memory = "residual";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {}; }

 protected:
  Values values_of(const SignSums& sums, std::uint64_t entries) const override;
};

}  // namespace weir::compressors
