#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// A bit per entry, least significant first: set where the entry is below zero. So zero, of either sign, counts as
// positive. Bits behind the last entry are zero.

constexpr std::size_t sign_bytes(std::size_t entries) { return (entries + 7) / 8; }

/// Fills `bits`, of sign_bytes(). False if a value is NaN or infinite.
bool write_signs(std::span<const float> values, std::span<std::byte> bits);

/// What the values of each sign add up to.
struct SignSums {
  double positive = 0;
  double negative = 0;
  std::uint64_t negatives = 0;  ///< how many are below zero
};

/// The same, and adds to `sums`. The order of additions is that of blocks and lanes of fixed size: `values` begins and,
/// unless it is the last of its tensor, ends at a multiple of sign_sum_block.
bool write_signs(std::span<const float> values, std::span<std::byte> bits, SignSums& sums);
inline constexpr std::size_t sign_sum_block = 4096;

/// sum += `negative` where the bit is set, `positive` elsewhere.
void add_by_sign(BytesView bits, float positive, float negative, std::span<float> sum);

/// Each value becomes -1 or 1, or 0 if its magnitude is below `least`.
void take_signs(float least, std::span<float> values);

}  // namespace weir::compressors
