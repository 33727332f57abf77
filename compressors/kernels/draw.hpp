#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

// Loops of random draws over whole tensors.

/// What a water level (transforms/water_filling.hpp) is found from.
struct MagnitudeSums {
  double sum = 0;             ///< of all |x|; means nothing if the largest is not finite
  std::uint32_t largest = 0;  ///< the largest magnitude()
  std::size_t nonzeros = 0;
};

/// Of a few thousand values, in an order of its own that is the same everywhere.
MagnitudeSums sum_magnitudes(std::span<const float> values);

/// The sum of all |x| whose magnitude() is less than `least`, in double precision.
double sum_below(std::span<const float> values, std::uint32_t least);

/// Finds the values that may be drawn with probability |x| / level, by one random word for each: writes the places of
/// all for which word < 2^32 |x| / level, and of some more at the edge. `places` has room for all. Gives their number.
std::size_t may_be_drawn(std::span<const float> values, std::span<const std::uint32_t> words, float level,
                         std::uint32_t* places);

}  // namespace weir::compressors
