#include "compressors/sparsifiers/threshold.hpp"

#include <algorithm>
#include <limits>

#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {

protocol::Params<Threshold::Options> Threshold::params() {
  return with_codecs(protocol::Params<Options>().number("threshold", &Options::threshold, {.minimum = 0.0},
                                                        "The least magnitude that is sent."));
}

Result<void> Threshold::choose(const Values& values, const Round& round, Selection& out) {
  constexpr double largest = std::numeric_limits<float>::max();
  const auto threshold = static_cast<float>(std::min(options_.threshold, largest));
  const auto done = values.collect(std::max(magnitude(threshold), 1U), values.size(), out);
  if (!done) return done.error();
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  return {};
}

}  // namespace weir::compressors
