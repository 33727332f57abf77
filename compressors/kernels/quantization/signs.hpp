#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "compressors/kernels/random/random.hpp"

namespace weir::compressors {

// One bit per entry, least significant bit first, set if the entry is below zero. Unused bits of the last byte are
// zero.

constexpr std::size_t sign_bytes(std::size_t entries) { return (entries + 7) / 8; }

/// Fills `bits`, which has sign_bytes() bytes, for the entries of a tensor that start at `first`, a multiple of
/// vote_block. The bit of a zero (of either sign) is a random coin, so that its expected vote is nothing: for entry i
/// it is bit i % 16 of random word i / 16 of `coins`. (Only the low half of a word is used, because the high half is
/// the low half of another word.) Returns false if a value is NaN or infinite.
bool write_votes(std::span<const float> values, std::uint64_t first, const RandomKey& coins, std::span<std::byte> bits);
inline constexpr std::size_t vote_block = 1024;

/// The sums of the values of each sign.
struct SignSums {
  double positive = 0;
  double negative = 0;
  std::uint64_t negatives = 0;  ///< number of values below zero
};

/// Fills `bits`, which has sign_bytes() bytes; zero, of either sign, counts as positive. Returns false if a value is
/// NaN or infinite.
bool write_signs(std::span<const float> values, std::span<std::byte> bits);

/// The same, and adds to `sums`. The order of the additions is fixed: lanes of a block, blocks of a run, runs; all of
/// them are long enough for the CPU and numerous enough for a GPU. So `values` must begin at a multiple of sign_sum_run
/// of its tensor and, unless it is the tensor's last part, end at one.
bool write_signs(std::span<const float> values, std::span<std::byte> bits, SignSums& sums);
inline constexpr std::size_t sign_sum_block = 4096;
inline constexpr std::size_t sign_sum_run = 64 * sign_sum_block;

/// sum += `negative` where the bit is set, `positive` elsewhere.
void add_by_sign(BytesView bits, float positive, float negative, std::span<float> sum);

/// Replaces each value of a tensor by -1 or 1: its sign, or, if its magnitude is below `least`, a coin as above (-1 if
/// the coin is set).
void take_majority(float least, const RandomKey& coins, std::span<float> values);

}  // namespace weir::compressors
