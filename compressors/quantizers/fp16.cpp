#include "compressors/quantizers/fp16.hpp"

#include "compressors/quantizers/cast.hpp"

namespace weir::compressors {

Result<void> Fp16::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return encode_cast<Half>(gradient, round, out);
}

Result<void> Fp16::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  return decode_cast<Half>(payload, round, weight, sum);
}

}  // namespace weir::compressors
