#include "compressors/sparsifiers/topk.hpp"

#include "compressors/flat.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {
protocol::Params<TopK::Options> TopK::params() {
  return with_codecs(protocol::Params<Options>().number(
      "ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0}, "Share of the entries that is sent."));
}

double TopK::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  return bound_for_share(static_cast<double>(entries_kept(options_.ratio, entries)) / static_cast<double>(entries));
}

Result<device::Selecting> TopK::begin_choice(const at::Tensor& gradient, const Round& round) const {
  return device::Selecting::select_largest(gradient, round.bins,
                                           entries_kept(options_.ratio, entries_of(gradient.sizes())));
}

Result<void> TopK::choose(const Values& values, const Round& round, Selection& out) {
  auto done = values.select_largest(entries_kept(options_.ratio, values.size()), out);
  if (!done) return done;
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  return {};
}

}  // namespace weir::compressors
