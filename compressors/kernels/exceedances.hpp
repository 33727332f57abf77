#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace weir::compressors {

// What a distribution is fitted to: magnitudes, and by how much they exceed a threshold. The order of the sums is the
// same everywhere.

struct Excess {
  double mean = 0;
  double variance = 0;
};

/// Of `magnitudes`, which are not empty and all lie above `floor`, less the floor. Not finite if one of them is not.
Excess excess_of(std::span<const float> magnitudes, float floor);

/// The mean of the natural logarithms of positive numbers, at least one.
double mean_log(std::span<const float> magnitudes);

/// Drops what is not above `floor`, in place, and gives how many are left.
std::size_t keep_above(float floor, std::span<float> magnitudes);

/// How many are above `floor`.
std::size_t count_above(float floor, std::span<const float> magnitudes);

/// The sum of the magnitudes, which saturates. Infinity if one of the values is NaN or infinite.
float sum_of_magnitudes(std::span<const float> values);

}  // namespace weir::compressors
