#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

// Loops for drawing entries at random, with probabilities proportional to their magnitudes.

/// Statistics from which the water level (transforms/water_filling.hpp) is computed.
struct MagnitudeSums {
  static constexpr std::uint32_t of_all = ~std::uint32_t{0};

  double sum = 0;             ///< of the |x| below a limit; meaningless if one of them is not finite
  std::uint32_t largest = 0;  ///< the largest magnitude() of all
  std::size_t nonzeros = 0;   ///< how many are below the limit and not zero
};

/// `below`: the magnitude() that is the limit. Meant for a few thousand values at a time. The order of the additions is
/// fixed, so every machine gets the same bits.
MagnitudeSums sum_magnitudes(std::span<const float> values, std::uint32_t below = MagnitudeSums::of_all);

/// A fast first test for drawing each value with probability |x| / level from one random word each: writes the
/// positions of all values with word < 2^32 |x| / level, and possibly of a few at the boundary that the caller must
/// test exactly. `places` must have room for all values. Returns the number written.
std::size_t may_be_drawn(std::span<const float> values, std::span<const std::uint32_t> words, float level,
                         std::uint32_t* places);

}  // namespace weir::compressors
