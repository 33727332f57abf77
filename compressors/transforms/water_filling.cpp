#include "compressors/transforms/water_filling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/kernels/selection/selection.hpp"

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

/// Writes the magnitudes of a selection to `top`, in descending order.
void sort_magnitudes(const Selection& above, std::vector<float>& top) {
  top.resize(above.size());
  std::ranges::transform(above.values, top.begin(), [](float value) { return std::fabs(value); });
  std::ranges::sort(top, std::greater<>());
}

}  // namespace

Result<float> water_level(const Values& values, const MagnitudeSums& sums, double budget, float level_max) {
  ensure(sums.largest < magnitude_infinite && budget > 0, "finite values and something to send");
  if (static_cast<double>(sums.nonzeros) <= budget) return 0.0F;
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
      const auto collected = values.collect(least, limit, above);
      if (!collected) return collected.error();
      if (!*collected) break;
      const auto rest = values.magnitude_sums(least);
      if (!rest) return rest.error();
      sort_magnitudes(above, top);
      level = level_of(top, rest->sum, budget);
      found = level >= static_cast<double>(cut);
      if (found) break;
    }
    if (!found) {
      const std::size_t most = std::min(static_cast<std::size_t>(budget) + 1, values.size());
      if (auto selected = values.select_largest(most, above); !selected) return selected.error();
      const Cut cut = cut_at_rank(above.values, most);  // they are as many, because more than the budget are not zero
      const auto under = values.magnitude_sums(cut.magnitude);
      if (!under) return under.error();
      const auto up_to = values.magnitude_sums(cut.magnitude + 1);
      if (!up_to) return up_to.error();
      const auto at_cut = static_cast<double>(up_to->nonzeros - under->nonzeros - cut.ties);
      const double rest = under->sum + at_cut * static_cast<double>(std::bit_cast<float>(cut.magnitude));
      sort_magnitudes(above, top);
      level = level_of(top, rest, budget);
    }
  }
  return static_cast<float>(std::min(level, static_cast<double>(level_max)));
}

}  // namespace weir::compressors
