#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/bytes.hpp"
#include "compressors/codecs/varint.hpp"

namespace weir::compressors {

// Helpers for codes that are multiples of a scale.

/// reach / steps. Positive if `reach` is: a denormal quotient is rounded up.
inline float scale_for(float reach, int steps) {
  const float scale = reach / static_cast<float>(steps);
  const bool low = scale < std::numeric_limits<float>::min() && static_cast<double>(scale) * steps < reach;
  return low ? std::nextafter(scale, 1.0F) : scale;
}

/// Steps of one scale, of which one is zero.
struct Grid {
  float scale = 0;
  std::uint8_t zero = 0;
};

/// For values from -below to above: divides 255 steps between the two sides of zero in whole numbers. The shorter side
/// gets as many as it needs, the longer side the rest, which determines the scale.
inline Grid grid_for(float below, float above) {
  constexpr int steps = 255;
  const float shorter = std::min(below, above);
  const float longer = std::max(below, above);
  if (longer == 0) return {};
  const double whole = static_cast<double>(shorter) + longer;
  const int needed = static_cast<int>(std::ceil(steps * (shorter / whole)));
  const int rest = steps - needed;
  return {scale_for(longer, rest), static_cast<std::uint8_t>(below == longer ? rest : needed)};
}

/// Whether a decoded scale is valid. Multiples of it saturate at the largest float (kernels/quantization/quantize.hpp).
inline bool is_scale(float scale) { return std::isfinite(scale) && scale >= 0; }

/// Whether the scales of all channels, with which a code begins, are valid.
inline bool are_scales(BytesView code, std::uint64_t channels) {
  for (std::uint64_t channel = 0; channel < channels; ++channel) {
    if (!is_scale(load_f32(code.data() + channel * sizeof(float)))) return false;
  }
  return true;
}

/// The error bound if the error of an entry is at most 1/254 of the largest magnitude and at most the entry itself.
inline double bound_of_steps(std::uint64_t entries) {
  if (entries == 0) return 0;
  return 1 - 1 / (1 + static_cast<double>(entries - 1) / (254.0 * 254.0));
}

/// Calls body(channel, at, size) for the part of each channel that lies between the entries `begin` and `end`: `size`
/// entries from entry `at` on. A channel has `row` entries.
template <class Body>
void for_channel_parts(std::size_t row, std::size_t begin, std::size_t end, const Body& body) {
  for (std::size_t at = begin; at < end;) {
    const std::size_t channel = at / row;
    const std::size_t size = std::min(end, (channel + 1) * row) - at;
    body(channel, at, size);
    at += size;
  }
}

}  // namespace weir::compressors
