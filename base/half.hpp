#pragma once

#include <cstdint>
#include <span>

namespace weir {

// Two 16-bit floats, for what is summed on the wire: conversions that round to nearest even and saturate, so that
// finite numbers stay finite, and loops over them. All give the same bits on every processor.

/// IEEE 754 binary16: 11 significant bits, magnitudes from 2^-24 to 65504.
struct Half {
  std::uint16_t bits = 0;
};

/// The upper half of a float32: 8 significant bits, the exponents of float32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// What lies beyond the largest finite number, infinity too, becomes that number; NaN stays NaN.
Half to_half(float value);
BFloat16 to_bfloat16(float value);

float to_float(Half value);
float to_float(BFloat16 value);

/// Rounds each of `from` into `to`, which is as long. False if one of them is NaN or infinite.
bool round_to(std::span<const float> from, std::span<Half> to);
bool round_to(std::span<const float> from, std::span<BFloat16> to);

/// to += from, entry by entry: added in float32, then rounded.
void add(std::span<const Half> from, std::span<Half> to);
void add(std::span<const BFloat16> from, std::span<BFloat16> to);

/// to += weight * from in float32. False if one of `from` is NaN or infinite.
bool add_scaled(float weight, std::span<const Half> from, std::span<float> to);
bool add_scaled(float weight, std::span<const BFloat16> from, std::span<float> to);

}  // namespace weir
