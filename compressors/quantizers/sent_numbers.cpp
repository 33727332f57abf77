#include "compressors/quantizers/sent_numbers.hpp"

#include "compressors/quantizers/bf16.hpp"
#include "compressors/quantizers/fp16.hpp"

namespace weir::compressors {

std::optional<at::ScalarType> sent_numbers(const Compressor& compressor) {
  if (dynamic_cast<const Bf16*>(&compressor) != nullptr) return at::kBFloat16;
  if (dynamic_cast<const Fp16*>(&compressor) != nullptr) return at::kHalf;
  return std::nullopt;
}

}  // namespace weir::compressors
