#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace weir::compressors {

// Codes that count steps of a scale.

/// reach / steps. Of a reach above zero it is above zero: quotients of denormal numbers are rounded up.
inline float scale_for(float reach, int steps) {
  const float scale = reach / static_cast<float>(steps);
  const bool low = scale < std::numeric_limits<float>::min() && static_cast<double>(scale) * steps < reach;
  return low ? std::nextafter(scale, 1.0F) : scale;
}

/// Whether a scale that was read is one. What its steps lead to is at most the largest float (kernels/quantize.hpp).
inline bool is_scale(float scale) { return std::isfinite(scale) && scale >= 0; }

/// The bound of the error where an entry errs by at most 1/254 of the largest and by no more than itself.
inline double bound_of_steps(std::uint64_t entries) {
  if (entries == 0) return 0;
  return 1 - 1 / (1 + static_cast<double>(entries - 1) / (254.0 * 254.0));
}

}  // namespace weir::compressors
