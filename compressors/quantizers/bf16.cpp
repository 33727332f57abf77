#include "compressors/quantizers/bf16.hpp"

#include "compressors/params.hpp"
#include "compressors/quantizers/cast.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params(Bf16::type_name);
  return params;
}

}  // namespace

nlohmann::json Bf16::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> Bf16::make(const nlohmann::json& given) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<Bf16>();
}

Result<void> Bf16::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return encode_cast<BFloat16>(gradient, round, out);
}

Result<void> Bf16::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  return decode_cast<BFloat16>(payload, weight, sum);
}

}  // namespace weir::compressors
