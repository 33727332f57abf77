#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/half.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/kernels/selection/selection.hpp"

// Values as floats of 16 bits, rounded to nearest, ties to even.
//
// fp16 is IEEE half precision times a power of two that scales the largest value to the upper end of its range, so that
// gradients neither overflow nor vanish, whatever their scale: only values below 2^-40 of the largest become zero.
// Layout, if there are any values: i8 exponent e, then u16 halves, each of which stands for itself times 2^e.
//
// bf16 has the range of float32. Layout: u16 each, the upper halves of the floats.

namespace weir::compressors {
namespace {

constexpr std::size_t block = 512;

template <class Number>
void write_rounded(float scale, std::span<const float> values, std::byte* to) {
  std::array<float, block> scaled;
  std::array<Number, block> rounded;
  for (std::size_t start = 0; start < values.size(); start += block) {
    const auto part = values.subspan(start, std::min(block, values.size() - start));
    for (std::size_t i = 0; i < part.size(); ++i) scaled[i] = scale * part[i];
    (void)round_to(std::span<const float>(scaled).first(part.size()), std::span(rounded).first(part.size()));
    std::memcpy(to + start * sizeof(Number), rounded.data(), part.size() * sizeof(Number));
  }
}

template <class Number>
void read_rounded(float scale, const std::byte* from, std::span<float> values) {
  std::array<Number, block> numbers;
  std::ranges::fill(values, -0.0F);  // adding a number to -0 gives that number, with its sign
  for (std::size_t start = 0; start < values.size(); start += block) {
    const auto part = values.subspan(start, std::min(block, values.size() - start));
    std::memcpy(numbers.data(), from + start * sizeof(Number), part.size() * sizeof(Number));
    (void)add_scaled(scale, std::span<const Number>(numbers).first(part.size()), part);
  }
}

std::size_t fp16_bytes(std::size_t count) { return count == 0 ? 0 : 1 + 2 * count; }

/// 2^exponent, if that is a normal number.
float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23); }

void fp16_encode(std::span<const float> values, std::span<std::byte> out) {
  if (values.empty()) return;
  std::uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, magnitude(value));
  // Scales the largest value to between 2^15 and 2^16; halves end at 65504. The exponent stops at -126, with which the
  // smallest float is representable as a half.
  const int exponent = std::max(static_cast<int>(largest >> 23) - 127 - 15, -126);
  out[0] = static_cast<std::byte>(exponent);
  write_rounded<Half>(power_of_two(-exponent), values, out.data() + 1);
}

void fp16_decode(BytesView in, std::span<float> values) {
  if (values.empty()) return;
  const int exponent = std::to_integer<std::int8_t>(in[0]);
  if (exponent >= -126) {
    read_rounded<Half>(power_of_two(exponent), in.data() + 1, values);
  } else {
    std::ranges::fill(values, std::bit_cast<float>(magnitude_infinite));  // which the caller refuses
  }
}

std::size_t bf16_bytes(std::size_t count) { return 2 * count; }
void bf16_encode(std::span<const float> values, std::span<std::byte> out) {
  write_rounded<BFloat16>(1, values, out.data());
}
void bf16_decode(BytesView in, std::span<float> values) { read_rounded<BFloat16>(1, in.data(), values); }

}  // namespace

// The error of a value is at most 2^-11 (1 - 2^-13) of itself (at 65536 - 2^-8), or 2^-40 of the largest value. The
// errors of the second kind add up to less than the first kind leaves of this bound.
constexpr ValueCodec fp16_codec{"fp16", 1, 0x1p-22, fp16_bytes, fp16_encode, fp16_decode};

// Half an ulp is 2^-9 of a value, but a value above the largest bfloat16 loses up to 2^-8.
constexpr ValueCodec bf16_codec{"bf16", 2, 0x1p-16, bf16_bytes, bf16_encode, bf16_decode};

}  // namespace weir::compressors
