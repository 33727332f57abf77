#include "compressors/quantizers/onebit.hpp"

#include "compressors/device/codes.hpp"
#include "compressors/kernels/quantization/signs.hpp"

namespace weir::compressors {
namespace {

float mean(double sum, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace

OneBit::Values OneBit::means(const SignSums& sums, std::uint64_t entries) {
  return {.positive = mean(sums.positive, entries - sums.negatives), .negative = mean(sums.negative, sums.negatives)};
}

bool OneBit::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  store(means(sums, values.size()), code);
  return true;
}

Result<bool> OneBit::write_on_device(const at::Tensor& values, const Extent& extent, const Round&,
                                     std::span<std::byte> code) {
  SignSums sums;
  auto written = device::write_signs(values, bits_of(code), sums);
  store(means(sums, extent.entries), code);
  return written;
}

}  // namespace weir::compressors
