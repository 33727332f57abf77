#include "compressors/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "compressors/parallel_loops.hpp"
#include "compressors/transforms/water_filling.hpp"

namespace weir::compressors {
namespace {

/// A magnitude() that probably a few more than `rank` values reach, estimated from a strided sample with a margin of
/// four standard deviations. 0 if the tensor is too small, or the rank too large, for a sample to pay off.
std::uint32_t probable_floor(std::span<const float> values, Peaks peaks, std::size_t rank) {
  constexpr double hits = 64;  // sampled values above the true cut, on average; more if they cost nothing
  const double wanted = std::max(hits * static_cast<double>(values.size()) / static_cast<double>(rank), 16384.0);
  if (wanted * 4 > static_cast<double>(values.size())) return 0;
  // With an odd stride, the sample meets every column of a matrix whose width is a power of two.
  const std::size_t stride = static_cast<std::size_t>(static_cast<double>(values.size()) / wanted) | 1;
  const StridedSample sample{.first = 0, .stride = stride, .count = (values.size() + stride - 1) / stride};
  const double share = static_cast<double>(sample.count) / static_cast<double>(values.size());
  const double expected = static_cast<double>(rank) * share;
  const auto deep = static_cast<std::size_t>(expected + 4 * std::sqrt(expected)) + 1;
  return sampled_cut(values, peaks, sample, std::min(deep, sample.count));
}

}  // namespace

void select_largest_by_sample(std::span<const float> values, Peaks peaks, std::size_t count, Selection& out) {
  // A sample provides a threshold slightly below the cut, one pass collects the entries above it, and the exact cut is
  // made among those. If the sample misleads, the exact cut is made in the whole tensor: slower, with the same result.
  const std::uint32_t floor = probable_floor(values, peaks, count);
  if (floor > 0 && parallel_collect(values, peaks, floor, 3 * count + 1024, out) && out.size() >= count) {
    trim(out, cut_at_rank(out.values, count));
  } else {
    select_largest(values, count, out);
  }
}

Result<CollectedBySample> HostValues::collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                                        Selection& out) const {
  const std::uint32_t cut = sampled_cut(values_, peaks_, ranked.sample, ranked.rank);
  return CollectedBySample{cut, parallel_collect(values_, peaks_, std::max(cut, 1U), limit, out)};
}

Result<void> HostValues::sample_magnitudes(const SampledRuns& runs, std::vector<float>& out) const {
  out.clear();
  out.reserve(runs.count * runs.length);
  for (std::size_t run = 0; run < runs.count; ++run) {
    for (const float value : values_.subspan(run * runs.distance, runs.length)) out.push_back(std::abs(value));
  }
  return {};
}

Result<bool> HostValues::collect(std::uint32_t least, std::size_t limit, Selection& out) const {
  return parallel_collect(values_, peaks_, least, limit, out);
}

Result<void> HostValues::select_largest(std::size_t count, Selection& out) const {
  select_largest_by_sample(values_, peaks_, count, out);
  return {};
}

Result<void> HostValues::select_of_blocks(std::size_t block, std::size_t of_block, Selection& out) const {
  (void)parallel_select(values_.size(), block, out, [&](std::size_t begin, std::size_t end, Selection& all) {
    // Neighbouring blocks are similar: a floor a little below the cut of the previous block leaves a few entries more
    // than wanted, and the cut is made among those. If that fails, it is made in the whole block: slower, with the same
    // result.
    std::uint32_t floor = 1;
    thread_local Selection found;  // kept between calls to reuse its memory
    for (std::size_t start = begin; start < end; start += block) {
      const auto part = values_.subspan(start, std::min(block, end - start));
      const bool complete = compressors::collect(part, floor, floor > 1 ? 8 * of_block : part.size(), found);
      if (!complete || (found.size() < of_block && floor > 1)) {
        (void)compressors::collect(part, 1, part.size(), found);
      }
      if (found.size() > of_block) {
        const Cut cut = cut_at_rank(found.values, of_block);
        floor = std::max(magnitude(0.85F * std::bit_cast<float>(cut.magnitude)), 1U);
        trim(found, cut);
      } else {
        floor = 1;
      }
      for (const std::uint32_t position : found.positions) {
        all.positions.push_back(static_cast<std::uint32_t>(start) + position);
      }
      all.values.insert(all.values.end(), found.values.begin(), found.values.end());
    }
    return true;
  });
  return {};
}

Result<NonFinite> HostValues::first_non_finite() const {
  const std::size_t at = find_non_finite(values_);
  return NonFinite{at, at < values_.size() ? values_[at] : 0};
}

/// On several threads, with the same bits for any number of them.
Result<MagnitudeSums> HostValues::magnitude_sums(std::uint32_t below) const {
  constexpr std::size_t block = 1 << 14;
  thread_local std::vector<MagnitudeSums> kept;  // between calls, to reuse its memory
  kept.resize((values_.size() + block - 1) / block);
  const std::span parts = kept;  // of this thread, also where another one fills it
  parallel_for_ranges(values_.size(), block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += block) {
      parts[at / block] = sum_magnitudes(values_.subspan(at, std::min(block, end - at)), below);
    }
  });
  MagnitudeSums all;
  for (const MagnitudeSums& part : parts) {
    all.sum += part.sum;
    all.largest = std::max(all.largest, part.largest);
    all.nonzeros += part.nonzeros;
  }
  return all;
}

Result<void> HostValues::draw(const RandomKey& key, float level, Selection& out) const {
  constexpr std::size_t block = 4096;
  constexpr std::uint64_t second_words = std::uint64_t{1} << 32;
  parallel_select(values_.size(), block, out, [&](std::size_t begin, std::size_t end, Selection& part) {
    std::array<std::uint32_t, block> words;
    std::array<std::uint32_t, block> places;
    for (std::size_t at = begin; at < end; at += block) {
      const auto some = values_.subspan(at, std::min(block, end - at));
      fill_random(key, at, std::span(words).first(some.size()));
      const std::size_t count = may_be_drawn(some, words, level, places.data());
      for (const std::uint32_t place : std::span(places).first(count)) {
        const float value = some[place];
        const auto more = [&] { return random_word(key, second_words + at + place); };
        if (!happens(probability(value, level), words[place], more)) continue;
        part.positions.push_back(static_cast<std::uint32_t>(at + place));
        part.values.push_back(std::fabs(value) > level ? value : std::copysign(level, value));
      }
    }
    return true;
  });
  return {};
}

}  // namespace weir::compressors
