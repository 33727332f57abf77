#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/random/random.hpp"

namespace weir::compressors {

// Floats in few bits, rounded at random so that the expectation of a decoded value is the value. Every rounded_bucket
// values share a scale:
//
//     f32[]  the largest magnitude of each bucket
//     ...    a code of `bits` bits for each: the level between -L and L, plus L, where L = 2^(bits - 1) - 1
//
// A code is decoded to scale * level / L. With 0 bits the floats are written as they are.

inline constexpr std::size_t rounded_bucket = 256;
inline constexpr unsigned rounded_bits_max = 8;

/// True for 0 and for 2 to rounded_bits_max.
constexpr bool valid_rounding(unsigned bits) { return bits == 0 || (bits >= 2 && bits <= rounded_bits_max); }

std::size_t rounded_bytes(std::size_t count, unsigned bits);

/// The number of random words that write_rounded() uses.
std::uint64_t rounded_words(std::size_t count, unsigned bits);

/// Fills `out`, which has rounded_bytes() bytes. Uses the random words of `key` from `first_word` (a multiple of 64)
/// on.
void write_rounded(std::span<const float> values, unsigned bits, const RandomKey& key, std::uint64_t first_word,
                   std::span<std::byte> out);

/// Fills `values` with finite floats. `in` has rounded_bytes() bytes. Fails with: malformed.
Result<void> read_rounded(BytesView in, unsigned bits, std::span<float> values);

/// A q such that E|read - written|^2 <= q |written|^2. The error of a value is always less than one level, and its root
/// mean square at most half a level; the scale is at most the norm of its bucket.
double rounding_variance(unsigned bits);

}  // namespace weir::compressors
