#include "compressors/quantizers/fp16.hpp"

#include "compressors/params.hpp"
#include "compressors/quantizers/cast.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params(Fp16::type_name);
  return params;
}

}  // namespace

nlohmann::json Fp16::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> Fp16::make(const nlohmann::json& given) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<Fp16>();
}

Result<void> Fp16::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return encode_cast<Half>(gradient, round, out);
}

Result<void> Fp16::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  return decode_cast<Half>(payload, weight, sum);
}

}  // namespace weir::compressors
