#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/half.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/quantization/levels.hpp"

// Values as a sign and a level of magnitude, in 8, 4 or 2 bits. The values that a sparsifier chooses are mostly far
// from zero, so the levels lie between the least and the largest magnitude of each 512 values instead of between zero
// and the largest. int8 and int4 have 128 or 8 levels, evenly between these two, which are rounded outward; a value
// gets the nearest level. int2 has two levels: the mean of the magnitudes in the lower half of their range, and the
// mean of those in the upper half, after the bin means of SparseLoCo. No value changes its sign.
//
// Layout, for each 512 values:
//
//     bf16    the lowest level
//     bf16    the highest level
//     ...     packed codes: the level in the low bits, the sign in the highest (kernels/pack.hpp)

namespace weir::compressors {
namespace {

constexpr std::size_t bucket = 512;
constexpr std::size_t ends_bytes = 4;

/// The nearest bfloat16 that is not above a magnitude (below) or not below it (above; or the largest bfloat16).
BFloat16 bfloat16_below(float x) { return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)}; }
BFloat16 bfloat16_above(float x) {
  const std::uint32_t above = (std::bit_cast<std::uint32_t>(x) + 0xFFFF) >> 16;
  return {static_cast<std::uint16_t>(std::min(above, 0x7F7FU))};
}

void store_ends(BFloat16 low, BFloat16 high, std::byte* to) {
  std::memcpy(to, &low, sizeof low);
  std::memcpy(to + sizeof low, &high, sizeof high);
}

Ends load_ends(const std::byte* from) {
  BFloat16 low;
  BFloat16 high;
  std::memcpy(&low, from, sizeof low);
  std::memcpy(&high, from + sizeof low, sizeof high);
  return {to_float(low), to_float(high)};
}

template <unsigned bits>
std::size_t level_bytes(std::size_t count) {
  return (count + bucket - 1) / bucket * ends_bytes + packed_bytes(count, bits);
}

template <unsigned bits>
void level_encode(std::span<const float> values, std::span<std::byte> out) {
  std::array<std::uint8_t, bucket> buffer;
  for (std::size_t start = 0; start < values.size(); start += bucket) {
    const auto part = values.subspan(start, std::min(bucket, values.size() - start));
    const std::span<std::uint8_t> codes = std::span(buffer).first(part.size());
    const Ends ends = ends_of(part);
    if constexpr (bits == 2) {
      const Ends means = means_of_halves(part, ends);
      store_ends(to_bfloat16(means.low), to_bfloat16(means.high), out.data());
      to_halves(part, ends, codes);
    } else {
      store_ends(bfloat16_below(ends.low), bfloat16_above(ends.high), out.data());
      to_levels(part, load_ends(out.data()), bits, codes);
    }
    pack(codes, bits, out.subspan(ends_bytes, packed_bytes(part.size(), bits)));
    out = out.subspan(level_bytes<bits>(part.size()));
  }
}

template <unsigned bits>
void level_decode(BytesView in, std::span<float> values) {
  std::array<std::uint8_t, bucket> buffer;
  for (std::size_t start = 0; start < values.size(); start += bucket) {
    const auto part = values.subspan(start, std::min(bucket, values.size() - start));
    const std::span<std::uint8_t> codes = std::span(buffer).first(part.size());
    unpack(in.subspan(ends_bytes, packed_bytes(part.size(), bits)), bits, codes);
    from_levels(codes, load_ends(in.data()), bits, part);
    in = in.subspan(level_bytes<bits>(part.size()));
  }
}

/// In the worst bucket one value is at the high end, 1, and all others are half a step above a low end of 0, and so
/// lose all of their size. Rounding the high end outward makes the step larger by a factor of 1 + 2^-7; the factor
/// 1.001 is for float arithmetic.
constexpr double level_bound(unsigned bits) {
  const double half_step = 0.5 * (1 + 0x1p-7) / ((1U << (bits - 1)) - 1);
  const double square = half_step * half_step;
  return 1.001 * bucket * square / (1 + (bucket - 1) * square);
}

/// With exact means the worst case is one value of 1 and 511 others, a share p of them at 1/2 and the rest at 0, which
/// have the variance p (1 - p) / 4 around their mean: sup 511 p (1 - p) / (4 + 511 p) = 0.83802. Rounding the means to
/// bfloat16 adds at most 2^-16.
constexpr double halves_bound = 0.8382;

}  // namespace

constexpr ValueCodec int8_codec{"int8", 3, level_bound(8), level_bytes<8>, level_encode<8>, level_decode<8>};
constexpr ValueCodec int4_codec{"int4", 4, level_bound(4), level_bytes<4>, level_encode<4>, level_decode<4>};
constexpr ValueCodec int2_codec{"int2", 5, halves_bound, level_bytes<2>, level_encode<2>, level_decode<2>};

}  // namespace weir::compressors
