#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/result.hpp"
#include "compressors/kernels/random/draw.hpp"
#include "compressors/values.hpp"

namespace weir::compressors {

/// Optimal probabilities for sending a share of some values, or of atoms of some size, scaled by 1 / p so that the
/// expectation is exact (Wang et al. 2018, Algorithm 1): among all p with sum p_i = min(budget, number of nonzero
/// values), those for which sum x_i^2 / p_i is least. They are
///
///     p_i = min(1, |x_i| / level)
///
/// so that everything sent with p < 1 is decoded to the level, up to its sign. Returns the level, exact except for
/// rounding to float, and at most `level_max`; 0 if all nonzero values are sent. `sums` are the statistics of all
/// `values`, which are finite. Takes O(n), and k log k for the k values that are almost as large as the level or
/// larger. Fails as Values.
Result<float> water_level(const Values& values, const MagnitudeSums& sums, double budget,
                          float level_max = std::numeric_limits<float>::max());

/// The probability of sending `value` with that level.
inline double probability(float value, float level) {
  const double magnitude = value < 0 ? -static_cast<double>(value) : static_cast<double>(value);
  if (magnitude == 0) return 0;
  return magnitude >= static_cast<double>(level) ? 1 : magnitude / static_cast<double>(level);
}

/// Decides an event of probability `p` with the full precision of p: by the random bits `high`, and in rare cases by 32
/// more bits that `low` returns.
template <class Low>
bool happens(double p, std::uint32_t high, const Low& low) {
  const double rest = p * 0x1p32 - static_cast<double>(high);
  return rest > 0 && (rest >= 1 || static_cast<double>(low()) < rest * 0x1p32);
}

}  // namespace weir::compressors
