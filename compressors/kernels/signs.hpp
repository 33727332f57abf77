#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "compressors/kernels/random.hpp"

namespace weir::compressors {

// A bit per entry, least significant first: set where the entry is below zero. Bits behind the last entry are zero.

constexpr std::size_t sign_bytes(std::size_t entries) { return (entries + 7) / 8; }

/// Fills `bits`, of sign_bytes(), for entries `first`, a multiple of vote_block, and following of a tensor. The bit of
/// a zero, of either sign, is a coin, so that it votes for nothing in expectation: of entry i it is bit i % 16 of word
/// i / 16 that `coins` gives. (Only the low half of a word is used: the high half is the low half of another one.)
/// False if a value is NaN or infinite.
bool write_votes(std::span<const float> values, std::uint64_t first, const RandomKey& coins, std::span<std::byte> bits);
inline constexpr std::size_t vote_block = 1024;

/// What the values of each sign add up to.
struct SignSums {
  double positive = 0;
  double negative = 0;
  std::uint64_t negatives = 0;  ///< how many are below zero
};

/// Fills `bits`, of sign_bytes(); zero, of either sign, counts as positive. False if a value is NaN or infinite.
bool write_signs(std::span<const float> values, std::span<std::byte> bits);

/// The same, and adds to `sums`. The order of additions is that of blocks and lanes of fixed size: `values` begins and,
/// unless it is the last of its tensor, ends at a multiple of sign_sum_block.
bool write_signs(std::span<const float> values, std::span<std::byte> bits, SignSums& sums);
inline constexpr std::size_t sign_sum_block = 4096;

/// sum += `negative` where the bit is set, `positive` elsewhere.
void add_by_sign(BytesView bits, float positive, float negative, std::span<float> sum);

/// Each value of a tensor becomes -1 or 1: its sign, or where its magnitude is below `least` a coin as above, -1 where
/// it is set.
void take_majority(float least, const RandomKey& coins, std::span<float> values);

}  // namespace weir::compressors
