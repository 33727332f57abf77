#include "compressors/quantizers/onebit.hpp"

#include "compressors/kernels/signs.hpp"
#include "compressors/params.hpp"

namespace weir::compressors {
namespace {

struct Options {};

const Params<Options>& params() {
  static const Params<Options> params(OneBit::type_name);
  return params;
}

float mean(double sum, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace

nlohmann::json OneBit::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> OneBit::make(const nlohmann::json& given) {
  const auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<OneBit>();
}

double OneBit::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

bool OneBit::write(std::span<const float> values, const Extent&, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, bits_of(code), sums)) return false;
  store({.positive = mean(sums.positive, values.size() - sums.negatives),
         .negative = mean(sums.negative, sums.negatives)},
        code);
  return true;
}

}  // namespace weir::compressors
