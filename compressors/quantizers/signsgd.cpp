#include "compressors/quantizers/signsgd.hpp"

#include "compressors/device/codes.hpp"
#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {

bool SignSgd::write(std::span<const float> values, const Extent&, const Round& round, std::span<std::byte> code) {
  return write_votes(values, 0, key_of_rank(round), code);
}

Result<void> SignSgd::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_votes(tensors);
}

}  // namespace weir::compressors
