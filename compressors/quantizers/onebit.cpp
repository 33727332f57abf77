#include "compressors/quantizers/onebit.hpp"

#include "compressors/kernels/quantization/signs.hpp"

namespace weir::compressors {
namespace {

float mean(double sum, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace

bool OneBit::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  store({.positive = mean(sums.positive, values.size() - sums.negatives),
         .negative = mean(sums.negative, sums.negatives)},
        code);
  return true;
}

}  // namespace weir::compressors
