#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "compressors/kernels/draw.hpp"

namespace weir::compressors {

/// Of any number of values, on several threads, with the same bits for any number of them.
MagnitudeSums magnitude_sums(std::span<const float> values);

/// Optimal probabilities for sending a share of some values, or atoms of some size, scaled up by 1 / p so that nothing
/// is lost on average (Wang et al. 2018, Algorithm 1): of all p with sum p_i = min(budget, values that are not zero)
/// those for which sum x_i^2 / p_i is least. They are
///
///     p_i = min(1, |x_i| / level)
///
/// so that whatever is sent with p < 1 arrives as the level, up to its sign. This gives the level, exact but for its
/// rounding to float and never above `level_max`; 0 if all that is not zero is sent. `sums` are those of the values,
/// which are finite. Takes O(n), and k log k for the k values that are almost as large as the level or larger.
float water_level(std::span<const float> values, const MagnitudeSums& sums, double budget,
                  float level_max = std::numeric_limits<float>::max());

/// The probability under a level.
inline double probability(float value, float level) {
  const double magnitude = value < 0 ? -static_cast<double>(value) : static_cast<double>(value);
  if (magnitude == 0) return 0;
  return magnitude >= static_cast<double>(level) ? 1 : magnitude / static_cast<double>(level);
}

/// Whether an event of probability `p` happens, as exact as p: it is decided by the random bits `high`, and seldom by
/// 32 more that `low` gives.
template <class Low>
bool happens(double p, std::uint32_t high, const Low& low) {
  const double rest = p * 0x1p32 - static_cast<double>(high);
  return rest > 0 && (rest >= 1 || static_cast<double>(low()) < rest * 0x1p32);
}

}  // namespace weir::compressors
