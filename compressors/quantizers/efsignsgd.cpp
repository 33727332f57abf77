#include "compressors/quantizers/efsignsgd.hpp"

#include "compressors/device/codes.hpp"
#include "compressors/kernels/quantization/signs.hpp"

namespace weir::compressors {

EfSignSgd::Values EfSignSgd::means(const SignSums& sums, std::uint64_t entries) {
  const auto mean = static_cast<float>((sums.positive - sums.negative) / static_cast<double>(entries));
  return {.positive = mean, .negative = -mean};
}

bool EfSignSgd::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  store(means(sums, values.size()), code);
  return true;
}

Result<bool> EfSignSgd::write_on_device(const at::Tensor& values, const Extent& extent, const Round&,
                                        std::span<std::byte> code) {
  SignSums sums;
  auto written = device::write_signs(values, bits_of(code), sums);
  store(means(sums, extent.entries), code);
  return written;
}

}  // namespace weir::compressors
