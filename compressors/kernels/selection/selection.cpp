#include "compressors/kernels/selection/selection.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "base/ensure.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/selection/collect.hpp"
#include "compressors/kernels/selection/floor.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t few = 1024;  // for up to this many values, sorting finds a cut faster than counting

Cut cut_of_few(std::span<const float> values, std::size_t rank) {
  std::array<std::uint32_t, few> room;
  const std::span<std::uint32_t> keys = std::span(room).first(values.size());
  std::ranges::transform(values, keys.begin(), magnitude);
  std::ranges::nth_element(keys, keys.begin() + static_cast<std::ptrdiff_t>(rank - 1), std::greater<>());
  const std::uint32_t cut = keys[rank - 1];
  const auto above = std::ranges::count_if(keys.first(rank), [&](std::uint32_t key) { return key > cut; });
  return {cut, rank - static_cast<std::size_t>(above)};
}

constexpr unsigned bin_bits = 11;
using Bins = std::array<std::uint32_t, std::size_t{1} << bin_bits>;

/// Counts the values for each (magnitude - least) >> shift.
Bins counted(std::span<const float> values, std::uint32_t least, unsigned shift) {
  std::array<Bins, 2> bins{};  // neighbours often share a bin, and a counter cannot be incremented twice at once
  std::size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++bins[0][(magnitude(values[i]) - least) >> shift];
    ++bins[1][(magnitude(values[i + 1]) - least) >> shift];
  }
  if (i < values.size()) ++bins[0][(magnitude(values[i]) - least) >> shift];
  for (std::size_t bin = 0; bin < bins[0].size(); ++bin) bins[0][bin] += bins[1][bin];
  return bins[0];
}

/// Fills `found` with the values for which (magnitude - least) >> shift == bin, of which there are `count`.
void find_within(std::span<const float> values, std::uint32_t least, unsigned shift, std::uint32_t bin,
                 std::size_t count, std::vector<float>& found) {
  found.resize(count + 1);
  std::size_t next = 0;
  for (const float value : values) {  // no branch: it could not be predicted
    found[next] = value;
    next += (magnitude(value) - least) >> shift == bin;
  }
  found.resize(count);
}

}  // namespace

Cut cut_at_rank(std::span<const float> values, std::size_t rank) {
  ensure(rank >= 1 && rank <= values.size(), "a rank within the values");
  // Kept between calls to reuse their memory: what is left, and what was left before.
  thread_local Selection above;
  thread_local std::array<std::vector<float>, 2> rest;
  // Most values are far below a high cut, and are left out in two passes without a branch or a table.
  if (const std::uint32_t floor = values.size() > few ? floor_of_largest(values, rank) : 0; floor > 0) {
    (void)collect(values, floor, values.size(), above);
    values = above.values;
  }
  for (std::size_t round = 0; values.size() > few; ++round) {
    std::uint32_t least = magnitude(values[0]);
    std::uint32_t largest = least;
    for (const float value : values) {
      least = std::min(least, magnitude(value));
      largest = std::max(largest, magnitude(value));
    }
    if (least == largest) return {least, rank};
    const auto width = static_cast<unsigned>(std::bit_width(largest - least));
    const unsigned shift = width > bin_bits ? width - bin_bits : 0;
    const Bins bins = counted(values, least, shift);
    std::uint32_t bin = (largest - least) >> shift;
    while (rank > bins[bin]) rank -= bins[bin--];
    find_within(values, least, shift, bin, bins[bin], rest[round % 2]);
    values = rest[round % 2];
  }
  return cut_of_few(values, rank);
}

void select_largest(std::span<const float> values, std::size_t count, Selection& out) {
  out.clear();
  Cut cut = cut_at_rank(values, count);
  if (cut.magnitude == 0) cut = {1, values.size()};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t key = magnitude(values[i]);
    if (key < cut.magnitude || (key == cut.magnitude && cut.ties == 0)) continue;
    if (key == cut.magnitude) --cut.ties;
    out.positions.push_back(static_cast<std::uint32_t>(i));
    out.values.push_back(values[i]);
  }
}

void trim(Selection& selection, Cut cut) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < selection.size(); ++i) {  // no branch: what is kept cannot be predicted
    const std::uint32_t key = magnitude(selection.values[i]);
    const std::size_t tie = std::size_t{key == cut.magnitude} & std::size_t{cut.ties > 0};
    selection.positions[kept] = selection.positions[i];
    selection.values[kept] = selection.values[i];
    cut.ties -= tie;
    kept += std::size_t{key > cut.magnitude} | tie;
  }
  selection.resize(kept);
}

bool collect(std::span<const float> values, std::uint32_t least, std::size_t limit, Selection& out) {
  constexpr std::size_t block = 4096;
  std::array<std::uint32_t, block + collect_slack> positions;
  std::array<float, block + collect_slack> found_values;
  out.clear();
  for (std::size_t start = 0; start < values.size(); start += block) {
    const std::size_t size = std::min(block, values.size() - start);
    const std::size_t found = collect_above(values.data() + start, size, least, positions.data(), found_values.data());
    for (std::size_t i = 0; i < found; ++i) positions[i] += static_cast<std::uint32_t>(start);
    out.positions.insert(out.positions.end(), positions.data(), positions.data() + found);
    out.values.insert(out.values.end(), found_values.data(), found_values.data() + found);
    if (out.size() > limit) {
      out.clear();
      return false;
    }
  }
  return true;
}

bool collect(std::span<const float> values, Peaks peaks, std::uint32_t least, std::size_t limit, Selection& out) {
  if (peaks.empty()) return collect(values, least, limit, out);
  ensure(peaks.size() == peaks_of(values.size()), "a peak for each block");
  thread_local Selection blocks;
  out.clear();
  if (!collect(peaks, least, limit, blocks)) return false;
  std::array<std::uint32_t, peak_block + collect_slack> positions;
  std::array<float, peak_block + collect_slack> found_values;
  const auto block_at = [&](std::size_t block) {
    const std::size_t start = blocks.positions[block] * peak_block;
    return values.subspan(start, std::min(peak_block, values.size() - start));
  };
  constexpr std::size_t ahead = 8;  // blocks lie far apart: what is on its way hides how long each takes
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i + ahead < blocks.size()) prefetch(block_at(i + ahead));
    const auto block = block_at(i);
    const std::size_t found = collect_above(block.data(), block.size(), least, positions.data(), found_values.data());
    const auto start = static_cast<std::uint32_t>(block.data() - values.data());
    for (std::size_t j = 0; j < found; ++j) positions[j] += start;
    out.positions.insert(out.positions.end(), positions.data(), positions.data() + found);
    out.values.insert(out.values.end(), found_values.data(), found_values.data() + found);
  }
  if (out.size() <= limit) return true;
  out.clear();
  return false;
}

void sort_by_position(Selection& selection) {
  // A radix sort: by the lowest digit first, and each further one keeps the order of what it does not tell apart.
  thread_local Selection sorted;
  std::uint32_t bits_set = 0;
  for (const std::uint32_t position : selection.positions) bits_set |= position;
  sorted.resize(selection.size());
  for (unsigned shift = 0; shift < 32 && bits_set >> shift > 0; shift += bin_bits) {
    const auto digit = [&](std::uint32_t position) { return position >> shift & ((1U << bin_bits) - 1); };
    Bins bins{};
    for (const std::uint32_t position : selection.positions) ++bins[digit(position)];
    std::exclusive_scan(bins.begin(), bins.end(), bins.begin(), 0U);
    for (std::size_t i = 0; i < selection.size(); ++i) {
      const std::size_t at = bins[digit(selection.positions[i])]++;
      sorted.positions[at] = selection.positions[i];
      sorted.values[at] = selection.values[i];
    }
    std::swap(sorted, selection);
  }
}

void add_selection(float weight, const Selection& selection, std::span<float> to) {
  add_selection(weight, selection.positions, selection.values, to);
}

void add_selection(float weight, std::span<const std::uint32_t> positions, std::span<const float> values,
                   std::span<float> to) {
  ensure(values.size() == positions.size(), "a value for each position");
  constexpr std::size_t ahead = 16;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (i + ahead < positions.size()) __builtin_prefetch(&to[positions[i + ahead]], 1);
    to[positions[i]] += weight * values[i];
  }
}

std::size_t find_non_finite(std::span<const float> values) {
  const auto at = std::ranges::find_if(values, [](float x) { return magnitude(x) >= magnitude_infinite; });
  return static_cast<std::size_t>(at - values.begin());
}

}  // namespace weir::compressors
