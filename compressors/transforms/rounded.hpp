#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/random.hpp"

namespace weir::compressors {

// Floats in few bits, rounded at random so that the mean of what is read is what was written. Every rounded_bucket of
// them share a scale:
//
//     f32[]  the largest magnitude of each bucket
//     ...    a code of `bits` bits for each: the level between -L and L, plus L, where L = 2^(bits - 1) - 1
//
// and each stands for scale * level / L. With 0 bits they are written as they are.

inline constexpr std::size_t rounded_bucket = 256;
inline constexpr unsigned rounded_bits_max = 8;

/// 0, or 2 to rounded_bits_max.
constexpr bool valid_rounding(unsigned bits) { return bits == 0 || (bits >= 2 && bits <= rounded_bits_max); }

std::size_t rounded_bytes(std::size_t count, unsigned bits);

/// How many random words write_rounded() takes.
std::uint64_t rounded_words(std::size_t count, unsigned bits);

/// Fills `out`, which has rounded_bytes(). The words of `key` from `first_word` (a multiple of 64) on decide.
void write_rounded(std::span<const float> values, unsigned bits, const RandomKey& key, std::uint64_t first_word,
                   std::span<std::byte> out);

/// Fills `values`, all finite; `in` has rounded_bytes(). Fails with: malformed.
Result<void> read_rounded(BytesView in, unsigned bits, std::span<float> values);

/// A q such that E|read - written|^2 <= q |written|^2. Each value errs by less than a level at best, and by half of one
/// in the mean square at worst; the scale is at most the norm of its bucket.
double rounding_variance(unsigned bits);

}  // namespace weir::compressors
