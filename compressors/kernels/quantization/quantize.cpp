#include "compressors/kernels/quantization/quantize.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {
namespace {

// Each loop is written once, without branches, and compiled twice: portable and for AVX2. It has no arithmetic that the
// compiler may reorder, so both versions give the same bits.

#if defined(__x86_64__)
template <auto loop, class... Args>
WEIR_AVX2 auto run_avx2(Args... args) {
  return loop(args...);
}
#endif

template <auto loop, class... Args>
auto run(Args... args) {
#if defined(__x86_64__)
  if (has_avx2()) return run_avx2<loop>(args...);
#endif
  return loop(args...);
}

constexpr float largest_float = std::numeric_limits<float>::max();

/// Rounds to nearest, ties to even, for magnitudes up to 2^22: after adding the shift, the last place of the float is
/// 1.
[[gnu::always_inline]] inline std::int32_t nearest(float value) {
  constexpr float shift = 0x1.8p23F;
  return std::bit_cast<std::int32_t>(value + shift) - std::bit_cast<std::int32_t>(shift);
}

[[gnu::always_inline]] inline std::int32_t bounded(std::int32_t value, std::int32_t least, std::int32_t most) {
  const std::int32_t raised = value < least ? least : value;
  return raised > most ? most : raised;
}

[[gnu::always_inline]] inline float finite(float value) {
  const float lowered = value < largest_float ? value : largest_float;
  return lowered > -largest_float ? lowered : -largest_float;
}

/// unit_float() * 2^24, an integer. Converted from a signed number, because there is an instruction for that.
[[gnu::always_inline]] inline float unit24(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8));
}

/// Maps the bits of a float to an integer of the same order, and back: reverses the order of negative numbers. NaN lies
/// beyond infinity.
[[gnu::always_inline]] inline std::int32_t ordered(std::int32_t bits) { return bits ^ (bits >> 31 & 0x7FFFFFFF); }

struct OrderedExtremes {
  std::int32_t least;
  std::int32_t most;
};

[[gnu::always_inline]] inline OrderedExtremes extremes_loop(const float* x, std::size_t n) {
  std::int32_t least = 0;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t here = ordered(std::bit_cast<std::int32_t>(x[i]));
    least = here < least ? here : least;
    most = here > most ? here : most;
  }
  return {least, most};
}

/// Partial sums: entry i is added to lane i % 8.
using Lanes = std::array<double, 8>;

Size size_portable(const float* x, std::size_t n, Lanes lanes) {
  Size size;
  for (std::size_t i = 0; i < n; ++i) {
    size.magnitude = std::max(size.magnitude, magnitude(x[i]));
    lanes[i % lanes.size()] += static_cast<double>(x[i]) * x[i];
  }
  for (const double lane : lanes) size.squares += lane;
  return size;
}

#if defined(__x86_64__)

WEIR_AVX2 Size size_avx2(const float* x, std::size_t n) {
  __m256i largest = _mm256_setzero_si256();
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 values = _mm256_loadu_ps(x + i);
    const __m256i magnitudes = _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7FFFFFFF));
    largest = _mm256_max_epu32(largest, magnitudes);
    const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(values));
    const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1));
    low = _mm256_add_pd(low, _mm256_mul_pd(first, first));
    high = _mm256_add_pd(high, _mm256_mul_pd(second, second));
  }
  Lanes lanes;
  _mm256_storeu_pd(lanes.data(), low);
  _mm256_storeu_pd(lanes.data() + 4, high);
  alignas(32) std::array<std::uint32_t, 8> magnitudes;
  _mm256_store_si256(reinterpret_cast<__m256i*>(magnitudes.data()), largest);
  Size size = size_portable(x + i, n - i, lanes);
  for (const std::uint32_t magnitude : magnitudes) size.magnitude = std::max(size.magnitude, magnitude);
  return size;
}

#endif

[[gnu::always_inline]] inline void write_int8_loop(const float* __restrict x, std::size_t n, float scale,
                                                   std::byte* __restrict codes) {
  for (std::size_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::byte>(bounded(nearest(x[i] / scale), -127, 127));
  }
}

[[gnu::always_inline]] inline void add_int8_loop(const std::byte* __restrict codes, std::size_t n, float scale,
                                                 float weight, float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t code = static_cast<std::int8_t>(codes[i]);
    sum[i] += weight * finite(scale * static_cast<float>(code));
  }
}

[[gnu::always_inline]] inline void write_uint8_loop(const float* __restrict x, std::size_t n, float scale,
                                                    std::int32_t zero, std::byte* __restrict codes) {
  for (std::size_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::byte>(bounded(nearest(x[i] / scale) + zero, 0, 255));
  }
}

[[gnu::always_inline]] inline void add_uint8_loop(const std::byte* __restrict codes, std::size_t n, float scale,
                                                  std::int32_t zero, float weight, float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t code = static_cast<std::uint8_t>(codes[i]) - zero;
    sum[i] += weight * finite(scale * static_cast<float>(code));
  }
}

/// A power of two as two factors, because it may be too large for one float or too small for a normal one.
struct PowerOfTwo {
  float first;
  float second;
};

PowerOfTwo power_of_two(int exponent) {
  return {std::ldexp(1.0F, exponent / 2), std::ldexp(1.0F, exponent - exponent / 2)};
}

// The code is the exponent field of the scaled value. A random number below 2^23 is added to the fraction and carries
// into the field with the probability that the fraction stands for. Below the window, scaled values are denormal, so
// the carry goes into field 1 with the probability value / 2^-126. A value too small for a denormal becomes zero, a
// bias of less than 2^-149 of the largest power. A field above 127 does not fit the window, before or after the carry.

bool write_natural_portable(const float* x, const std::uint32_t* words, std::size_t n, PowerOfTwo factor,
                            std::byte* codes) {
  std::uint32_t high = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto scaled = std::bit_cast<std::uint32_t>(x[i] * factor.first * factor.second);
    const std::uint32_t carried = scaled + (words[i] >> 9);
    high |= scaled | carried;
    codes[i] = static_cast<std::byte>((carried >> 23 & 0x7F) | (carried >> 24 & 0x80));
  }
  return (high & 0x40000000) == 0;
}

#if defined(__x86_64__)

/// The codes of sixteen values: the exponent fields with the sign above them, the sign then moved to the highest bit of
/// the code.
WEIR_AVX2 inline __m256i natural_sixteen(const float* x, const std::uint32_t* words, PowerOfTwo factor, __m256i& high) {
  __m256i fields[2];
  for (std::size_t half = 0; half < 2; ++half) {
    const __m256 once = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * half), _mm256_set1_ps(factor.first));
    const __m256i scaled = _mm256_castps_si256(_mm256_mul_ps(once, _mm256_set1_ps(factor.second)));
    const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 8 * half));
    const __m256i carried = _mm256_add_epi32(scaled, _mm256_srli_epi32(word, 9));
    high = _mm256_or_si256(high, _mm256_or_si256(scaled, carried));
    fields[half] = _mm256_srli_epi32(carried, 23);
  }
  const __m256i packed = _mm256_packus_epi32(fields[0], fields[1]);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi16(packed, 1), _mm256_set1_epi16(0x80));
  return _mm256_or_si256(_mm256_and_si256(packed, _mm256_set1_epi16(0x7F)), sign);
}

WEIR_AVX2 bool write_natural_avx2(const float* x, const std::uint32_t* words, std::size_t n, PowerOfTwo factor,
                                  std::byte* codes) {
  // The pack instructions work within halves of a register: this puts the quarters of the result in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i high = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i first = natural_sixteen(x + i, words + i, factor, high);
    const __m256i second = natural_sixteen(x + i + 16, words + i + 16, factor, high);
    const __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), packed);
  }
  const bool fits = _mm256_testz_si256(high, _mm256_set1_epi32(0x40000000)) != 0;
  return write_natural_portable(x + i, words + i, n - i, factor, codes + i) && fits;
}

#endif

[[gnu::always_inline]] inline void add_natural_loop(const std::byte* __restrict codes, std::size_t n, PowerOfTwo factor,
                                                    float weight, float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = static_cast<std::uint32_t>(codes[i]);
    const float power = std::bit_cast<float>((code & 0x7F) << 23) * factor.first * factor.second;
    const float finite = power < largest_float ? power : largest_float;
    sum[i] += weight * std::bit_cast<float>(std::bit_cast<std::uint32_t>(finite) | (code & 0x80) << 24);
  }
}

[[gnu::always_inline]] inline void write_levels_loop(const float* __restrict x, const std::uint32_t* __restrict words,
                                                     std::size_t n, float norm, float most,
                                                     std::uint8_t* __restrict levels) {
  for (std::size_t i = 0; i < n; ++i) {
    // |x| / norm is at most 1, rounded or not: this is at most `most`, and if it is `most`, the fraction is zero.
    const float scaled = std::bit_cast<float>(magnitude(x[i])) / norm * most;
    const auto level = static_cast<std::int32_t>(scaled);
    const float fraction = (scaled - static_cast<float>(level)) * 0x1p24F;
    levels[i] = static_cast<std::uint8_t>(level + (unit24(words[i]) < fraction ? 1 : 0));
  }
}

/// The highest level decodes to exactly the norm: for these numbers, the product with the rounded inverse is 1.
constexpr bool inverses_are_exact() {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    const auto most = static_cast<float>((1U << bits) - 1);
    if (most * (1 / most) != 1) return false;
  }
  return true;
}
static_assert(inverses_are_exact());

void add_levels_portable(const std::uint8_t* levels, const std::byte* signs, std::size_t n, float norm, float step,
                         float weight, float* sum) {
  for (std::size_t i = 0; i < n; ++i) {
    const float size = static_cast<float>(levels[i]) * step * norm;
    const bool negative = std::to_integer<unsigned>(signs[i / 8]) >> i % 8 & 1;
    sum[i] += weight * (negative ? -size : size);
  }
}

#if defined(__x86_64__)

WEIR_AVX2 void add_levels_avx2(const std::uint8_t* levels, const std::byte* signs, std::size_t n, float norm,
                               float step, float weight, float* sum) {
  const __m256i to_upper_bit = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  const __m256 upper_bit = _mm256_set1_ps(-0.0F);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(levels + i));
    const __m256 level = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
    const __m256 size = _mm256_mul_ps(_mm256_mul_ps(level, _mm256_set1_ps(step)), _mm256_set1_ps(norm));
    const __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32(std::to_integer<int>(signs[i / 8])), to_upper_bit);
    const __m256 value = _mm256_xor_ps(size, _mm256_and_ps(_mm256_castsi256_ps(bits), upper_bit));
    const __m256 term = _mm256_mul_ps(_mm256_set1_ps(weight), value);
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), term));
  }
  add_levels_portable(levels + i, signs + i / 8, n - i, norm, step, weight, sum + i);
}

#endif

[[gnu::always_inline]] inline void draw_trits_loop(const float* __restrict x, const std::uint32_t* __restrict words,
                                                   std::size_t n, float limit, float scale,
                                                   std::uint8_t* __restrict trits) {
  for (std::size_t i = 0; i < n; ++i) {
    const float size = std::bit_cast<float>(magnitude(x[i]));
    const float chance = (size < limit ? size : limit) / scale * 0x1p24F;
    const std::int32_t sign = x[i] < 0 ? -1 : 1;
    trits[i] = static_cast<std::uint8_t>(1 + (unit24(words[i]) < chance ? sign : 0));
  }
}

[[gnu::always_inline]] inline void join_trits_loop(const std::uint8_t* __restrict trits, std::size_t stride,
                                                   std::byte* __restrict bytes) {
  for (std::size_t j = 0; j < stride; ++j) {
    unsigned joined = trits[j + 4 * stride];
    joined = 3 * joined + trits[j + 3 * stride];
    joined = 3 * joined + trits[j + 2 * stride];
    joined = 3 * joined + trits[j + stride];
    bytes[j] = static_cast<std::byte>(3 * joined + trits[j]);
  }
}

[[gnu::always_inline]] inline bool are_trits_loop(const std::byte* __restrict bytes, std::size_t n) {
  std::uint8_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad = static_cast<std::uint8_t>(bad | (bytes[i] > std::byte{242} ? 1 : 0));
  return bad == 0;
}

[[gnu::always_inline]] inline void split_trits_loop(const std::byte* __restrict bytes, std::size_t stride,
                                                    std::uint8_t* __restrict trits) {
  for (std::size_t j = 0; j < stride; ++j) {
    auto rest = static_cast<std::uint16_t>(bytes[j]);
    for (std::size_t k = 0; k < 5; ++k) {
      const auto third = static_cast<std::uint16_t>(rest * 171 >> 9);  // rest / 3, correct for every byte
      trits[j + k * stride] = static_cast<std::uint8_t>(rest - 3 * third);
      rest = third;
    }
  }
}

[[gnu::always_inline]] inline void add_trits_loop(const std::uint8_t* __restrict trits, std::size_t n, float step,
                                                  float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += step * static_cast<float>(trits[i] - 1);
}

/// A whole block has a constant stride, so the compiler can unroll its loops.
constexpr std::size_t block_stride = trit_block / 5;

[[gnu::always_inline]] inline void join_block_loop(const std::uint8_t* trits, std::byte* bytes) {
  join_trits_loop(trits, block_stride, bytes);
}
[[gnu::always_inline]] inline void split_block_loop(const std::byte* bytes, std::uint8_t* trits) {
  split_trits_loop(bytes, block_stride, trits);
}

}  // namespace

Extremes extremes_of(std::span<const float> values) {
  const OrderedExtremes found = run<extremes_loop>(values.data(), values.size());
  const auto least = std::bit_cast<float>(ordered(found.least));
  const auto most = std::bit_cast<float>(found.most);
  return {std::max(magnitude(least), magnitude(most)), least < 0 ? least : 0, most};
}

Size size_of(std::span<const float> values) {
#if defined(__x86_64__)
  if (has_avx2()) return size_avx2(values.data(), values.size());
#endif
  return size_portable(values.data(), values.size(), {});
}

Size sum_of_sizes(std::span<const Size> parts) {
  constexpr std::size_t run = 64;
  const auto add = [](const Size& a, const Size& b) {
    return Size{std::max(a.magnitude, b.magnitude), a.squares + b.squares};
  };
  Size all;
  for (std::size_t start = 0; start < parts.size(); start += run) {
    const auto of_run = parts.subspan(start, std::min(run, parts.size() - start));
    all = add(all, std::accumulate(of_run.begin(), of_run.end(), Size{}, add));
  }
  return all;
}

float norm_of(double squares) { return static_cast<float>(std::min(std::sqrt(squares), double{largest_float})); }

void write_int8(std::span<const float> values, float scale, std::span<std::byte> codes) {
  ensure(codes.size() == values.size(), "a code for every value");
  run<write_int8_loop>(values.data(), values.size(), scale, codes.data());
}

void add_int8(BytesView codes, float scale, float weight, std::span<float> sum) {
  ensure(codes.size() == sum.size(), "a code for every entry");
  run<add_int8_loop>(codes.data(), sum.size(), scale, weight, sum.data());
}

void write_uint8(std::span<const float> values, float scale, std::uint8_t zero, std::span<std::byte> codes) {
  ensure(codes.size() == values.size(), "a code for every value");
  run<write_uint8_loop>(values.data(), values.size(), scale, std::int32_t{zero}, codes.data());
}

void add_uint8(BytesView codes, float scale, std::uint8_t zero, float weight, std::span<float> sum) {
  ensure(codes.size() == sum.size(), "a code for every entry");
  run<add_uint8_loop>(codes.data(), sum.size(), scale, std::int32_t{zero}, weight, sum.data());
}

int natural_window(std::uint32_t largest) {
  // In window 23, codes are exponent fields, and the largest is 127. Here the field belongs to the power of two to
  // which the largest value can be rounded up.
  const int field = static_cast<int>(largest >> 23) + 1;
  return std::max(field - 127 + 23, 0);
}

bool write_natural(std::span<const float> values, std::span<const std::uint32_t> words, int window,
                   std::span<std::byte> codes) {
  ensure(words.size() == values.size() && codes.size() == values.size(), "a word and a code for every value");
  const PowerOfTwo factor = power_of_two(23 - window);
#if defined(__x86_64__)
  if (has_avx2()) return write_natural_avx2(values.data(), words.data(), values.size(), factor, codes.data());
#endif
  return write_natural_portable(values.data(), words.data(), values.size(), factor, codes.data());
}

void add_natural(BytesView codes, int window, float weight, std::span<float> sum) {
  ensure(codes.size() == sum.size(), "a code for every entry");
  run<add_natural_loop>(codes.data(), sum.size(), power_of_two(window - 23), weight, sum.data());
}

void write_levels(std::span<const float> values, std::span<const std::uint32_t> words, float norm, unsigned most,
                  std::span<std::uint8_t> levels) {
  ensure(words.size() == values.size() && levels.size() == values.size(), "a word and a level for every value");
  run<write_levels_loop>(values.data(), words.data(), values.size(), norm, static_cast<float>(most), levels.data());
}

void add_levels(std::span<const std::uint8_t> levels, BytesView signs, float norm, unsigned most, float weight,
                std::span<float> sum) {
  ensure(levels.size() == sum.size() && signs.size() == (sum.size() + 7) / 8, "a level and a sign for every entry");
  const float step = 1 / static_cast<float>(most);
#if defined(__x86_64__)
  if (has_avx2()) return add_levels_avx2(levels.data(), signs.data(), sum.size(), norm, step, weight, sum.data());
#endif
  add_levels_portable(levels.data(), signs.data(), sum.size(), norm, step, weight, sum.data());
}

void write_trits(std::span<const float> values, std::span<const std::uint32_t> words, float limit, float scale,
                 std::span<std::byte> bytes) {
  ensure(values.size() <= trit_block && words.size() == values.size() && bytes.size() == trit_bytes(values.size()),
         "a block of trits");
  std::array<std::uint8_t, trit_block> trits;
  run<draw_trits_loop>(values.data(), words.data(), values.size(), limit, scale, trits.data());
  if (values.size() == trit_block) return run<join_block_loop>(trits.data(), bytes.data());
  std::fill(trits.begin() + static_cast<std::ptrdiff_t>(values.size()), trits.end(), std::uint8_t{0});
  join_trits_loop(trits.data(), bytes.size(), bytes.data());
}

bool are_trits(BytesView bytes) { return run<are_trits_loop>(bytes.data(), bytes.size()); }

void add_trits(BytesView bytes, float step, std::span<float> sum) {
  ensure(sum.size() <= trit_block && bytes.size() == trit_bytes(sum.size()), "a block of trits");
  std::array<std::uint8_t, trit_block> trits;
  if (sum.size() == trit_block) {
    run<split_block_loop>(bytes.data(), trits.data());
  } else {
    split_trits_loop(bytes.data(), bytes.size(), trits.data());
  }
  run<add_trits_loop>(trits.data(), sum.size(), step, sum.data());
}

}  // namespace weir::compressors
