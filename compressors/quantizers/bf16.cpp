#include "compressors/quantizers/bf16.hpp"

#include "compressors/quantizers/cast.hpp"

namespace weir::compressors {

Result<void> Bf16::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return encode_cast<BFloat16>(gradient, round, out);
}

Result<void> Bf16::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  return decode_cast<BFloat16>(payload, round, weight, sum);
}

}  // namespace weir::compressors
