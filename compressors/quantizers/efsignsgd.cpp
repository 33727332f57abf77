#include "compressors/quantizers/efsignsgd.hpp"

#include "compressors/kernels/signs.hpp"
#include "compressors/params.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params(EfSignSgd::type_name);
  return params;
}

}  // namespace

nlohmann::json EfSignSgd::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> EfSignSgd::make(const nlohmann::json& given) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<EfSignSgd>();
}

double EfSignSgd::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

bool EfSignSgd::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  const auto mean = static_cast<float>((sums.positive - sums.negative) / static_cast<double>(values.size()));
  store({.positive = mean, .negative = -mean}, code);
  return true;
}

}  // namespace weir::compressors
