#pragma once

#include <cstdint>
#include <span>

namespace weir::compressors {

// Codes of a sign and one of 2^(bits - 1) magnitudes that lie evenly between two ends: the level in the low bits, the
// sign in the highest of `bits` (2 to 8).

struct Ends {
  float low = 0;
  float high = 0;
};

/// The least and largest magnitude of values that are not empty.
Ends ends_of(std::span<const float> values);

/// The code of the nearest level for each value, whose magnitudes lie between the ends.
void to_levels(std::span<const float> values, const Ends& ends, unsigned bits, std::span<std::uint8_t> codes);

/// What the codes stand for: low + level * ((high - low) / (levels - 1)), with the sign.
void from_levels(std::span<const std::uint8_t> codes, const Ends& ends, unsigned bits, std::span<float> values);

/// The means of the magnitudes up to and above the middle of `ends`; where there are none above, the same mean twice.
Ends means_of_halves(std::span<const float> values, const Ends& ends);

/// Codes of two bits whose level is whether the magnitude lies above the middle of `ends`.
void to_halves(std::span<const float> values, const Ends& ends, std::span<std::uint8_t> codes);

}  // namespace weir::compressors
