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

Result<std::vector<device::Selecting>> TopK::begin_choice(std::span<const at::Tensor> gradients,
                                                          std::span<const Round> rounds) const {
  std::vector<device::Selecting::Largest> wanted;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::uint64_t entries = entries_of(gradients[i].sizes());
    wanted.push_back({gradients[i], rounds[i].bins, entries_kept(options_.ratio, entries)});
  }
  return device::Selecting::select_largest(wanted);
}

Result<void> TopK::choose(const Values& values, const Round& round, Selection& out) {
  auto done = values.select_largest(entries_kept(options_.ratio, values.size()), out);
  if (!done) return done;
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  return {};
}

}  // namespace weir::compressors
