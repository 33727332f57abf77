#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace weir::compressors {

// Helpers for codes that are multiples of a scale.

/// reach / steps. Positive if `reach` is: a denormal quotient is rounded up.
inline float scale_for(float reach, int steps) {
  const float scale = reach / static_cast<float>(steps);
  const bool low = scale < std::numeric_limits<float>::min() && static_cast<double>(scale) * steps < reach;
  return low ? std::nextafter(scale, 1.0F) : scale;
}

/// Whether a decoded scale is valid. Multiples of it saturate at the largest float (kernels/quantization/quantize.hpp).
inline bool is_scale(float scale) { return std::isfinite(scale) && scale >= 0; }

/// The error bound if the error of an entry is at most 1/254 of the largest magnitude and at most the entry itself.
inline double bound_of_steps(std::uint64_t entries) {
  if (entries == 0) return 0;
  return 1 - 1 / (1 + static_cast<double>(entries - 1) / (254.0 * 254.0));
}

}  // namespace weir::compressors
