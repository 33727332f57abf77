#include "compressors/quantizers/signsgd.hpp"

#include "compressors/kernels/signs.hpp"
#include "compressors/params.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params(SignSgd::type_name);
  return params;
}

}  // namespace

nlohmann::json SignSgd::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> SignSgd::make(const nlohmann::json& given) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<SignSgd>();
}

bool SignSgd::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  return write_signs(values, code);
}

}  // namespace weir::compressors
