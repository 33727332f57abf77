#include "compressors/quantizers/signsgd.hpp"

#include "compressors/kernels/signs.hpp"

namespace weir::compressors {

bool SignSgd::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  return write_signs(values, code);
}

}  // namespace weir::compressors
