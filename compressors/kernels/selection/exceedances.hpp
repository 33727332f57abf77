#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace weir::compressors {

// Statistics of the magnitudes above a threshold, to which SIDCo fits a distribution. The order of the additions is
// fixed, so every machine gets the same bits.

struct Excess {
  double mean = 0;
  double variance = 0;
};

/// Mean and variance of magnitude - floor. `magnitudes` is not empty and all of them lie above `floor`. The result is
/// not finite if one of them is not.
Excess excess_of(std::span<const float> magnitudes, float floor);

/// The mean of the natural logarithms. `magnitudes` is not empty and all of them are positive.
double mean_log(std::span<const float> magnitudes);

/// Moves the magnitudes above `floor` to the front, in order, and returns how many there are.
std::size_t keep_above(float floor, std::span<float> magnitudes);

/// The number of magnitudes above `floor`.
std::size_t count_above(float floor, std::span<const float> magnitudes);

/// The sum of |x|, at most the largest float; infinity if one of the values is NaN or infinite.
float sum_of_magnitudes(std::span<const float> values);

}  // namespace weir::compressors
