#include "compressors/quantizers/onebit.hpp"

namespace weir::compressors {
namespace {

float mean(double sum, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace

OneBit::Values OneBit::values_of(const SignSums& sums, std::uint64_t entries) const {
  return {.positive = mean(sums.positive, entries - sums.negatives), .negative = mean(sums.negative, sums.negatives)};
}

}  // namespace weir::compressors
