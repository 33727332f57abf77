#include "compressors/sparsifiers/threshold.hpp"

#include <algorithm>
#include <limits>

#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {
namespace {

const Params<Threshold::Options>& params() {
  using Options = Threshold::Options;
  static const Params<Options> params =
      with_codecs(Params<Options>(Threshold::type_name)
                      .number("threshold", &Options::threshold, {.minimum = 0}, "The least magnitude that is sent."));
  return params;
}

}  // namespace

nlohmann::json Threshold::schema() { return params().schema(); }

Result<std::unique_ptr<Compressor>> Threshold::make(const nlohmann::json& given) {
  auto options = params().parse(given);
  if (!options) return options.error();
  return std::make_unique<Threshold>(std::move(*options));
}

Result<void> Threshold::choose(std::span<const float> values, const Round& round, Selection& out) {
  constexpr double largest = std::numeric_limits<float>::max();
  const auto threshold = static_cast<float>(std::min(options_.threshold, largest));
  (void)parallel_collect(values, std::max(magnitude(threshold), 1U), values.size(), out);
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values);
  return {};
}

}  // namespace weir::compressors
