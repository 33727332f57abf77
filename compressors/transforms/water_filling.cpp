#include "compressors/transforms/water_filling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {
namespace {

/// The level, provided that all values sent with p = 1 are among `top`, the largest values in descending order. `rest`
/// is the sum of all other values.
double level_of(const std::vector<float>& top, double rest, double budget) {
  // Summed from the smallest value of `top` upwards, so that numbers of similar size are added.
  thread_local std::vector<double> tail;  // kept between calls to reuse its memory
  tail.assign(top.size() + 1, rest);
  for (std::size_t i = top.size(); i-- > 0;) tail[i] = tail[i + 1] + static_cast<double>(top[i]);
  std::size_t certain = 0;
  while (certain < top.size() &&
         static_cast<double>(top[certain]) * (budget - static_cast<double>(certain)) > tail[certain]) {
    ++certain;
  }
  return tail[certain] / (budget - static_cast<double>(certain));
}

/// Writes the magnitudes of a selection to `top`, in descending order, and returns the sum of all other magnitudes.
double split(std::span<const float> values, std::uint32_t least, Selection& above, std::vector<float>& top) {
  top.resize(above.size());
  std::ranges::transform(above.values, top.begin(), [](float value) { return std::fabs(value); });
  std::ranges::sort(top, std::greater<>());
  return sum_below(values, least);
}

}  // namespace

MagnitudeSums magnitude_sums(std::span<const float> values) {
  constexpr std::size_t block = 1 << 14;
  thread_local std::vector<MagnitudeSums> kept;  // between calls, to reuse its memory
  kept.resize((values.size() + block - 1) / block);
  const std::span parts = kept;  // of this thread, also where another one fills it
  parallel_for_ranges(values.size(), block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += block) {
      parts[at / block] = sum_magnitudes(values.subspan(at, std::min(block, end - at)));
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

float water_level(std::span<const float> values, const MagnitudeSums& sums, double budget, float level_max) {
  ensure(sums.largest < magnitude_infinite && budget > 0, "finite values and something to send");
  if (static_cast<double>(sums.nonzeros) <= budget) return 0;
  const double largest = std::bit_cast<float>(sums.largest);
  double level = sums.sum / budget;
  const double bottom = level;
  if (largest > bottom) {
    // Values above the level are sent with p = 1 and leave less of the budget for the rest, so the level is lower than
    // `bottom`. At most `budget` values lie above it.
    thread_local Selection above;  // kept between calls to reuse their memory
    thread_local std::vector<float> top;
    const std::size_t limit = std::min(static_cast<std::size_t>(4 * budget), values.size()) + 1024;
    bool found = false;
    for (const double guess : {bottom / 4, bottom / 64}) {
      const auto cut = static_cast<float>(guess);
      const std::uint32_t least = std::max<std::uint32_t>(magnitude(cut), 1);
      if (!collect(values, least, limit, above)) break;
      level = level_of(top, split(values, least, above, top), budget);
      found = level >= static_cast<double>(cut);
      if (found) break;
    }
    if (!found) {
      const std::size_t most = std::min(static_cast<std::size_t>(budget) + 1, values.size());
      select_largest(values, most, above);
      const Cut cut = cut_at_rank(values, most);
      const double kept_at_cut =
          static_cast<double>(std::ranges::count_if(values, [&](float x) { return magnitude(x) == cut.magnitude; })) -
          static_cast<double>(cut.ties);
      const double rest = split(values, cut.magnitude, above, top) +
                          kept_at_cut * static_cast<double>(std::bit_cast<float>(cut.magnitude));
      level = level_of(top, rest, budget);
    }
  }
  return static_cast<float>(std::min(level, static_cast<double>(level_max)));
}

}  // namespace weir::compressors
