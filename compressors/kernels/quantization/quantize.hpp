#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// The loops of the quantizers. Those that round at random take one random word per entry (kernels/random/random.hpp).
// The spans of one call have the same length unless stated otherwise.

/// The range of the values. `magnitude` is the largest magnitude() (kernels/selection/selection.hpp):
/// magnitude_infinite or more if a value is NaN or infinite. `least` and `most` are the minimum and maximum of the
/// values and zero.
struct Extremes {
  std::uint32_t magnitude = 0;
  float least = 0;
  float most = 0;
};
Extremes extremes_of(std::span<const float> values);

/// The largest magnitude() and the sum of squares. The sum is in double precision and in a fixed order, so every
/// machine gets the same bits.
struct Size {
  std::uint32_t magnitude = 0;
  double squares = 0;
};
Size size_of(std::span<const float> values);

/// The size of a tensor from those of its parts, also in a fixed order: runs of 64 parts, and then the runs, so that a
/// GPU need not add up one long chain.
Size sum_of_sizes(std::span<const Size> parts);

/// The norm of values with this sum of squares. At least every magnitude: each operation is monotonic, and exact for a
/// single value. The norm of large values can exceed the largest float; that float is then used, which is at least
/// every magnitude, too.
float norm_of(double squares);

/// codes = round(values / scale), ties to even, clamped to [-127, 127]. `scale` is positive.
void write_int8(std::span<const float> values, float scale, std::span<std::byte> codes);
/// sum += weight * (scale * code). A product that would overflow is the largest float.
void add_int8(BytesView codes, float scale, float weight, std::span<float> sum);

/// codes = round(values / scale) + zero, clamped to [0, 255]. `scale` is positive.
void write_uint8(std::span<const float> values, float scale, std::uint8_t zero, std::span<std::byte> codes);
/// sum += weight * (scale * (code - zero)). A product that would overflow is the largest float.
void add_uint8(BytesView codes, float scale, std::uint8_t zero, float weight, std::span<float> sum);

/// Natural compression codes a value as a sign (highest bit) and a number c: zero if c is 0, otherwise the power of two
/// 2^(c + window - 150). 2^128, which is no float, stands for the largest float.
inline constexpr int natural_window_max = 151;

/// The smallest window that can code every value up to the magnitude `largest`, which is finite.
int natural_window(std::uint32_t largest);
/// Rounds each value at random to one of the two neighbouring powers of two (a value below the window's smallest power:
/// to that power or zero), so that the expectation is the value. Returns false, with meaningless codes, if a value does
/// not fit the window, which includes NaN and infinity.
bool write_natural(std::span<const float> values, std::span<const std::uint32_t> words, int window,
                   std::span<std::byte> codes);
/// sum += weight * decoded value.
void add_natural(BytesView codes, int window, float weight, std::span<float> sum);

/// QSGD's levels: with y = |x| / norm * most, the level is floor(y) + 1 with probability y - floor(y), else floor(y).
/// `norm` is positive and at least every magnitude, so that no level exceeds `most`.
void write_levels(std::span<const float> values, std::span<const std::uint32_t> words, float norm, unsigned most,
                  std::span<std::uint8_t> levels);
/// sum += weight * (level * (1 / most) * norm), negated where the bit of `signs` (kernels/quantization/signs.hpp) is
/// set.
void add_levels(std::span<const std::uint8_t> levels, BytesView signs, float norm, unsigned most, float weight,
                std::span<float> sum);

/// Ternary codes: 2 for +1, 0 for -1, 1 for 0. A byte holds five of them as base-3 digits, the first the least
/// significant: with n entries and stride = ceil(n / 5), byte j holds the entries j, j + stride, ..., j + 4 * stride.
/// Digits past the last entry are 0.
inline constexpr std::size_t trit_block = 320;

constexpr std::size_t trit_bytes(std::size_t entries) { return (entries + 4) / 5; }

/// Codes each value as its sign with probability min(|x|, limit) / scale, else as zero, and packs the codes. At most
/// trit_block values; `bytes` has trit_bytes(values.size()) bytes. `scale` is positive and at least `limit`.
void write_trits(std::span<const float> values, std::span<const std::uint32_t> words, float limit, float scale,
                 std::span<std::byte> bytes);
/// Whether each byte is the code of five digits, 242 or less.
bool are_trits(BytesView bytes);
/// sum += step * (-1, 0 or 1). At most trit_block entries.
void add_trits(BytesView bytes, float step, std::span<float> sum);

}  // namespace weir::compressors
