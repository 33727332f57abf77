#include "compressors/kernels/selection.hpp"

#include <algorithm>
#include <array>

#include "base/ensure.hpp"
#include "compressors/kernels/collect.hpp"

namespace weir::compressors {
namespace {

/// One digit of the radix selection in cut_at_rank: among values whose magnitude agrees with `prefix` above
/// the digit, finds the digit of the `rank`-th largest, and leaves in `rank` its rank among those that have
/// this digit too.
std::uint32_t digit_at_rank(std::span<const float> values, unsigned shift, unsigned bits, std::uint32_t prefix,
                            std::size_t& rank) {
  std::array<std::uint64_t, 2048> histogram{};
  const std::uint32_t mask = (1u << bits) - 1;
  for (const float value : values) {
    const std::uint32_t key = magnitude(value) >> shift;
    if (key >> bits == prefix) ++histogram[key & mask];
  }
  std::uint32_t digit = mask;
  while (rank > histogram[digit]) rank -= histogram[digit--];
  return digit;
}

}  // namespace

Cut cut_at_rank(std::span<const float> values, std::size_t rank) {
  ensure(rank >= 1 && rank <= values.size(), "a rank within the values");
  std::uint32_t prefix = 0;
  unsigned shift = 31;
  for (const unsigned bits : {11u, 10u, 10u}) {
    shift -= bits;
    prefix = (prefix << bits) | digit_at_rank(values, shift, bits, prefix, rank);
  }
  return {prefix, rank};
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
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const std::uint32_t key = magnitude(selection.values[i]);
    if (key < cut.magnitude || (key == cut.magnitude && cut.ties == 0)) continue;
    if (key == cut.magnitude) --cut.ties;
    selection.positions[kept] = selection.positions[i];
    selection.values[kept] = selection.values[i];
    ++kept;
  }
  selection.positions.resize(kept);
  selection.values.resize(kept);
}

bool collect(std::span<const float> values, std::uint32_t least, std::size_t limit, Selection& out) {
  limit = std::min(limit, values.size());
  out.positions.resize(limit + collect_slack);
  out.values.resize(limit + collect_slack);
  const std::size_t found =
      collect_above(values.data(), values.size(), least, limit, out.positions.data(), out.values.data());
  const bool complete = found <= limit;
  out.positions.resize(complete ? found : 0);
  out.values.resize(complete ? found : 0);
  return complete;
}

void collect_all(std::span<const float> values, std::uint32_t least, Selection& out) {
  constexpr std::size_t block = 8192;
  std::array<std::uint32_t, block + collect_slack> positions;
  std::array<float, block + collect_slack> found_values;
  out.clear();
  for (std::size_t start = 0; start < values.size(); start += block) {
    const std::size_t size = std::min(block, values.size() - start);
    const std::size_t found =
        collect_above(values.data() + start, size, least, size, positions.data(), found_values.data());
    for (std::size_t i = 0; i < found; ++i) positions[i] += static_cast<std::uint32_t>(start);
    out.positions.insert(out.positions.end(), positions.data(), positions.data() + found);
    out.values.insert(out.values.end(), found_values.data(), found_values.data() + found);
  }
}

void add_selection(float weight, const Selection& selection, std::span<float> to) {
  ensure(selection.values.size() == selection.positions.size(), "a value for each position");
  for (std::size_t i = 0; i < selection.size(); ++i) to[selection.positions[i]] += weight * selection.values[i];
}

std::size_t find_non_finite(std::span<const float> values) {
  const auto at = std::ranges::find_if(values, [](float x) { return magnitude(x) >= magnitude_infinite; });
  return static_cast<std::size_t>(at - values.begin());
}

}  // namespace weir::compressors
