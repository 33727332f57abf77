#pragma once

#include <cstdint>
#include <span>

namespace weir::compressors {

// Uniform quantization of magnitudes with a sign: a code of `bits` bits (2 to 8) holds the sign in its highest bit and,
// below it, one of 2^(bits - 1) levels that divide the interval between two ends evenly.

struct Ends {
  float low = 0;
  float high = 0;
};

/// The smallest and the largest magnitude. `values` is not empty.
Ends ends_of(std::span<const float> values);

/// Codes each value by its sign and the nearest level. All magnitudes lie between the ends.
void to_levels(std::span<const float> values, const Ends& ends, unsigned bits, std::span<std::uint8_t> codes);

/// Decodes: each value is low + level * ((high - low) / (levels - 1)), with the sign.
void from_levels(std::span<const std::uint8_t> codes, const Ends& ends, unsigned bits, std::span<float> values);

/// The mean of the magnitudes up to the middle of `ends`, and the mean of those above it; if none is above, the first
/// mean twice.
Ends means_of_halves(std::span<const float> values, const Ends& ends);

/// Two-bit codes: the sign, and whether the magnitude lies above the middle of `ends`.
void to_halves(std::span<const float> values, const Ends& ends, std::span<std::uint8_t> codes);

}  // namespace weir::compressors
