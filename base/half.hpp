#pragma once

#include <cstdint>
#include <span>

namespace weir {

// Two 16-bit float types for sums on the wire. Conversions round to nearest, ties to even, and saturate, so that finite
// numbers stay finite. All functions give the same bits on every processor.

/// IEEE 754 binary16: 11 significant bits, magnitudes from 2^-24 to 65504.
struct Half {
  std::uint16_t bits = 0;
};

/// The upper half of a float32: 8 significant bits, the exponents of float32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// Values beyond the largest finite number, infinity included, become that number; NaN stays NaN.
Half to_half(float value);
BFloat16 to_bfloat16(float value);

float to_float(Half value);
float to_float(BFloat16 value);

/// Rounds `from` into `to`, which has the same length. Returns false if a value is NaN or infinite.
bool round_to(std::span<const float> from, std::span<Half> to);
bool round_to(std::span<const float> from, std::span<BFloat16> to);

/// to += from, entry by entry: added in float32, then rounded.
void add(std::span<const Half> from, std::span<Half> to);
void add(std::span<const BFloat16> from, std::span<BFloat16> to);

/// to += weight * from, in float32. Returns false if a value of `from` is NaN or infinite.
bool add_scaled(float weight, std::span<const Half> from, std::span<float> to);
bool add_scaled(float weight, std::span<const BFloat16> from, std::span<float> to);

}  // namespace weir
