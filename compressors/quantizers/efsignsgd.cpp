#include "compressors/quantizers/efsignsgd.hpp"

#include "compressors/kernels/quantization/signs.hpp"

namespace weir::compressors {

bool EfSignSgd::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  const auto mean = static_cast<float>((sums.positive - sums.negative) / static_cast<double>(values.size()));
  store({.positive = mean, .negative = -mean}, code);
  return true;
}

}  // namespace weir::compressors
