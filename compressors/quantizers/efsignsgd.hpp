#pragma once

#include "compressors/quantizers/signs.hpp"

namespace weir::compressors {

/// The scaled signs of EF-signSGD (Karimireddy et al., ICML 2019): every entry becomes its sign times the mean
/// magnitude of all entries; zero counts as positive. Biased; |x - y|^2 = |x|^2 - |x|_1^2 / n, which is (1 - 1/n) |x|^2
/// if all but one entry are zero. Takes every tensor, as the authors' code does. Wire format: signs.hpp, where the
/// second value is minus the first.
class EfSignSgd final : public TwoValues {
 public:
  static constexpr std::string_view type_name = "efsignsgd";
  static constexpr std::string_view summary =
      "Signs times the mean magnitude, with error feedback in units of the step.";
  static constexpr std::string_view default_memory = "efsignsgd";

  std::string_view name() const override { return type_name; }
  std::uint64_t vector_entries_min() const override { return 0; }
  Traits traits() const override { return {}; }

 protected:
  Values values_of(const SignSums& sums, std::uint64_t entries) const override;
};

}  // namespace weir::compressors
