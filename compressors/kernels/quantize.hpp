#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// The loops of the quantizers. Those that draw take one random word per entry (kernels/random.hpp). Spans of one call
// are equally long unless something else is said.

/// How far the values go. The magnitude is that of kernels/selection.hpp: magnitude_infinite or more if a value is NaN
/// or infinite. `least` and `most` are those of the values and zero.
struct Extremes {
  std::uint32_t magnitude = 0;
  float least = 0;
  float most = 0;
};
Extremes extremes_of(std::span<const float> values);

/// The largest magnitude and the sum of squares, in double precision and in an order that is the same everywhere.
struct Size {
  std::uint32_t magnitude = 0;
  double squares = 0;
};
Size size_of(std::span<const float> values);

/// codes = round(values / scale), at most 127 in magnitude, to nearest even. `scale` is above zero.
void write_int8(std::span<const float> values, float scale, std::span<std::byte> codes);
/// sum += weight * (scale * code), where the product is at most the largest float.
void add_int8(BytesView codes, float scale, float weight, std::span<float> sum);

/// codes = round(values / scale) + zero, between 0 and 255. `scale` is above zero.
void write_uint8(std::span<const float> values, float scale, std::uint8_t zero, std::span<std::byte> codes);
/// sum += weight * (scale * (code - zero)), where the product is at most the largest float.
void add_uint8(BytesView codes, float scale, std::uint8_t zero, float weight, std::span<float> sum);

/// Powers of two: a code is a sign in its upper bit and a number c below it, which stands for zero if it is 0 and for
/// 2^(c + window - 150) otherwise; 2^128 stands for the largest float.
inline constexpr int natural_window_max = 151;

/// The least window that has room for every value up to the magnitude `largest`, which is finite.
int natural_window(std::uint32_t largest);
/// Rounds each value up or down to a power of two, or below the window's least power to that or zero, so that the
/// expectation is the value. False if the window has no room for a value, as it has for none that is NaN or infinite:
/// the codes then mean nothing.
bool write_natural(std::span<const float> values, std::span<const std::uint32_t> words, int window,
                   std::span<std::byte> codes);
/// sum += weight * what the codes stand for.
void add_natural(BytesView codes, int window, float weight, std::span<float> sum);

/// Levels of QSGD: with y = |x| / norm * most, floor(y), or one more with the probability of y - floor(y). `norm` is
/// above zero and not below any magnitude, so that no level is above `most`.
void write_levels(std::span<const float> values, std::span<const std::uint32_t> words, float norm, unsigned most,
                  std::span<std::uint8_t> levels);
/// sum += weight * (level * (1 / most) * norm), or minus that where the bit of `signs` (kernels/signs.hpp) is set.
void add_levels(std::span<const std::uint8_t> levels, BytesView signs, float norm, unsigned most, float weight,
                std::span<float> sum);

/// Ternary codes: 2 for +1, 0 for -1, 1 for 0. In a byte are five of them, as digits of base 3, the first the lowest:
/// of n entries byte j has the entries j + k * stride with stride = ceil(n / 5). Digits without an entry are 0.
inline constexpr std::size_t trit_block = 320;

constexpr std::size_t trit_bytes(std::size_t entries) { return (entries + 4) / 5; }

/// The sign of each value with probability min(|x|, limit) / scale, else zero: packed. At most trit_block values;
/// `bytes` has trit_bytes(). `scale` is above zero and not below `limit`.
void write_trits(std::span<const float> values, std::span<const std::uint32_t> words, float limit, float scale,
                 std::span<std::byte> bytes);
/// sum += step * (-1, 0 or 1). At most trit_block entries. False if a byte has more than five digits; `sum` then has
/// something else added.
bool add_trits(BytesView bytes, float step, std::span<float> sum);

}  // namespace weir::compressors
