#include "compressors/sparsifiers/dgc.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/philox.hpp"
#include "compressors/flat.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/codec_params.hpp"
#include "compressors/sparsifiers/warmup_params.hpp"

namespace weir::compressors {
namespace {

/// The least magnitude() to collect for a threshold: at least 1, because zeros are never sent.
std::uint32_t floor_of(float threshold) { return std::max(magnitude(threshold), 1u); }

/// If a threshold keeps more entries than this, it only matters that it keeps too many, so collecting stops.
std::size_t limit_of(std::size_t kept) { return 4 * kept + 1024; }

}  // namespace

SamplePlan SamplePlan::of(std::uint64_t entries, double ratio, double sample_ratio) {
  const auto by_share = static_cast<std::uint64_t>(std::ceil(static_cast<double>(entries) * sample_ratio));
  const double by_ratio = std::ceil(2 / ratio);
  if (sample_ratio >= 1 || static_cast<double>(entries) <= by_ratio) return {.stride = 1, .samples = entries};
  const std::uint64_t wanted = std::max(by_share, static_cast<std::uint64_t>(by_ratio));
  const double spread = static_cast<double>(entries) / static_cast<double>(wanted);
  // Odd, so that the sample meets every column of a matrix. The stride decreases in steps of 8 and ends at 1 at the
  // latest.
  std::uint64_t stride = static_cast<std::uint64_t>(std::ceil(spread / 32)) * 32 + 1;
  while (stride > 1 && entries / stride < wanted) stride -= 8;
  return {.stride = stride, .samples = entries / stride};
}

protocol::Params<Dgc::Options> Dgc::params() {
  return with_codecs(with_warmup(
      protocol::Params<Options>()
          .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
                  "Share of the entries that is sent after the warm-up.")
          .integer("min_kept", &Options::min_kept, {.minimum = 1.0},
                   "Entries of a tensor that are sent at least, or all if it has no more.")
          .number("sample_ratio", &Options::sample_ratio, {.minimum = 0.01, .maximum = 1.0},
                  "Share of the entries that is sampled to find the threshold.")
          .number("upper_bound", &Options::upper_bound, {.exclusive_minimum = 1.0, .maximum = 10.0},
                  "More than this times the wanted number of entries: the threshold is too low.")
          .number("lower_bound", &Options::lower_bound, {.exclusive_minimum = 0.0, .maximum = 0.99},
                  "Less than this times the wanted number of entries: the threshold is too high.")
          .integer("adaptations_max", &Options::adaptations_max, {.minimum = 0.0, .maximum = 100.0},
                   "How often the threshold is corrected at most.")
          .flag("resample", &Options::resample,
                "On a threshold that is too low, cut exactly within what it keeps, instead of raising it.")));
}

double Dgc::error_bound(std::uint64_t entries, const Round&) const {
  // Fewer than ratio * n may be kept, but always the largest ones, and at least one.
  return entries == 0 ? 0 : bound_for_share(1 / static_cast<double>(entries));
}

double Dgc::share(std::uint64_t entries, const Round& round) const {
  const double least = static_cast<double>(options_.min_kept) / static_cast<double>(entries);
  return std::min(1.0, std::max(ratio(round), least));
}

std::optional<std::size_t> Dgc::expected_count(std::uint64_t entries, const Round& round) const {
  return entries_kept(share(entries, round), entries);
}

std::optional<WireBits> Dgc::expected_bits(at::IntArrayRef shape, const Round& round) const {
  if (entries_of(shape) > 0 && share(entries_of(shape), round) >= 1) {
    return WireBits{.gathered = std::numeric_limits<double>::infinity()};
  }
  return Sparsifier::expected_bits(shape, round);
}

Result<std::vector<device::Selecting>> Dgc::begin_choice(std::span<const at::Tensor> gradients,
                                                         std::span<const Round> rounds) const {
  std::vector<device::Selecting::BySample> by_sample;
  std::vector<device::Selecting::Largest> largest;
  std::vector<bool> is_sampled;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::uint64_t entries = entries_of(gradients[i].sizes());
    const std::size_t kept = entries_kept(share(entries, rounds[i]), entries);
    const auto first = first_threshold(entries, rounds[i]);
    is_sampled.push_back(first.has_value());
    if (first) {
      by_sample.push_back({gradients[i], *first, limit_of(kept)});
    } else {
      largest.push_back({gradients[i], rounds[i].bins, kept});
    }
  }
  auto sampled = device::Selecting::collect_by_sample(by_sample);
  if (!sampled) return sampled;
  auto ranked = device::Selecting::select_largest(largest);
  if (!ranked) return ranked;
  std::vector<device::Selecting> all;
  for (std::size_t i = 0, s = 0, r = 0; i < gradients.size(); ++i) {
    all.push_back(is_sampled[i] ? std::move((*sampled)[s++]) : std::move((*ranked)[r++]));
  }
  return all;
}

Result<void> Dgc::choose(const Values& values, const Round& round, Selection& out) {
  const std::size_t kept = entries_kept(share(values.size(), round), values.size());
  const auto first = first_threshold(values.size(), round);
  auto done = first ? adapt(values, *first, kept, out) : values.select_largest(kept, out);
  if (!done) return done;
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  return {};
}

std::optional<SampledRank> Dgc::first_threshold(std::uint64_t entries, const Round& round) const {
  const double wanted = share(entries, round);
  const SamplePlan plan = SamplePlan::of(entries, wanted, options_.sample_ratio);
  if (plan.samples == entries || entries_kept(wanted, entries) == entries) return std::nullopt;
  const std::uint32_t word = Philox(round.seed).at(round.step, round.tensor, 0)[0];
  return SampledRank{.sample = {.first = Philox::below(static_cast<std::uint32_t>(plan.stride), word),
                                .stride = plan.stride,
                                .count = plan.samples},
                     .rank = entries_kept(wanted, plan.samples)};
}

Result<void> Dgc::adapt(const Values& values, const SampledRank& first, std::size_t kept, Selection& out) const {
  const double most = options_.upper_bound * static_cast<double>(kept);
  const double least = options_.lower_bound * static_cast<double>(kept);
  const std::size_t limit = limit_of(kept);
  const auto sampled = values.collect_by_sample(first, limit, out);
  if (!sampled) return sampled.error();
  auto threshold = std::bit_cast<float>(sampled->cut);
  Result<bool> complete = sampled->complete;
  for (std::int64_t i = 0; complete && i < options_.adaptations_max; ++i) {
    if (!*complete || static_cast<double>(out.size()) > most) {
      if (options_.resample) break;
      threshold *= static_cast<float>(options_.upper_bound);
    } else if (static_cast<double>(out.size()) < least && magnitude(threshold) > 1) {
      threshold *= static_cast<float>(options_.lower_bound);
    } else {
      break;
    }
    complete = values.collect(floor_of(threshold), limit, out);
  }
  if (!complete) return complete.error();
  // The largest entries above the threshold are the largest of all. If the threshold rose above every entry, nothing
  // would be sent for a tensor that is not zero.
  if (!*complete || (out.size() == 0 && magnitude(threshold) > 1)) return values.select_largest(kept, out);
  if (out.size() > kept) trim(out, cut_at_rank(out.values, kept));
  return {};
}

}  // namespace weir::compressors
