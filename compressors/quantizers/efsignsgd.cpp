#include "compressors/quantizers/efsignsgd.hpp"

namespace weir::compressors {

EfSignSgd::Values EfSignSgd::values_of(const SignSums& sums, std::uint64_t entries) const {
  const auto mean = static_cast<float>((sums.positive - sums.negative) / static_cast<double>(entries));
  return {.positive = mean, .negative = -mean};
}

}  // namespace weir::compressors
