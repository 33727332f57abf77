#include "base/half.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/ensure.hpp"
#include "base/processor.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {
namespace {

constexpr std::uint32_t infinite = 0x7F800000;  // the least magnitude that is not finite
constexpr std::uint32_t quiet = 0x00400000;

constexpr std::uint16_t half_max = 0x7BFF;
constexpr std::uint16_t bfloat16_max = 0x7F7F;

std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF; }

// Without branches, so that compilers vectorize the loops.

[[gnu::always_inline]] inline BFloat16 round_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t nearest = (magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16;
  const std::uint32_t finite = nearest < bfloat16_max ? nearest : bfloat16_max;
  const std::uint32_t rounded = magnitude > infinite ? (magnitude | quiet) >> 16 : finite;
  return {static_cast<std::uint16_t>(rounded | (bits >> 16 & 0x8000))};
}

[[gnu::always_inline]] inline float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

[[gnu::always_inline]] inline bool round_loop(const float* __restrict from, std::size_t count,
                                              BFloat16* __restrict to) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(from[i]) & 0x7FFFFFFF;
    largest = magnitude > largest ? magnitude : largest;
    to[i] = round_bfloat16(from[i]);
  }
  return largest < infinite;
}

[[gnu::always_inline]] inline void add_loop(const BFloat16* __restrict from, std::size_t count,
                                            BFloat16* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = round_bfloat16(widen(to[i]) + widen(from[i]));
}

[[gnu::always_inline]] inline bool add_scaled_loop(float weight, const BFloat16* __restrict from, std::size_t count,
                                                   float* __restrict to) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = from[i].bits & 0x7FFF;
    largest = magnitude > largest ? magnitude : largest;
    to[i] += weight * widen(from[i]);
  }
  return largest <= bfloat16_max;
}

bool round_portable(const float* from, std::size_t count, BFloat16* to) { return round_loop(from, count, to); }
void add_portable(const BFloat16* from, std::size_t count, BFloat16* to) { add_loop(from, count, to); }
bool add_scaled_portable(float weight, const BFloat16* from, std::size_t count, float* to) {
  return add_scaled_loop(weight, from, count, to);
}

bool round_portable(const float* from, std::size_t count, Half* to) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, magnitude_of(from[i]));
    to[i] = to_half(from[i]);
  }
  return largest < infinite;
}

void add_portable(const Half* from, std::size_t count, Half* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_half(to_float(to[i]) + to_float(from[i]));
}

bool add_scaled_portable(float weight, const Half* from, std::size_t count, float* to) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max<std::uint32_t>(largest, from[i].bits & 0x7FFF);
    to[i] += weight * to_float(from[i]);
  }
  return largest <= half_max;
}

#if defined(__x86_64__)

// The portable loops for BFloat16 are compiled once more; Half has instructions of its own.

WEIR_AVX2 bool round_avx2(const float* from, std::size_t count, BFloat16* to) { return round_loop(from, count, to); }
WEIR_AVX2 void add_avx2(const BFloat16* from, std::size_t count, BFloat16* to) { add_loop(from, count, to); }
WEIR_AVX2 bool add_scaled_avx2(float weight, const BFloat16* from, std::size_t count, float* to) {
  return add_scaled_loop(weight, from, count, to);
}

/// Eight floats to halves. Of a NaN, min and max give their second operand: it stays.
WEIR_AVX2 inline __m128i narrow(__m256 values) {
  const __m256 limit = _mm256_set1_ps(65504);
  const __m256 finite = _mm256_max_ps(_mm256_set1_ps(-65504), _mm256_min_ps(limit, values));
  return _mm256_cvtps_ph(finite, _MM_FROUND_TO_NEAREST_INT);
}

WEIR_AVX2 inline __m128i load(const Half* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
WEIR_AVX2 inline void store(Half* to, __m128i halves) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves); }

WEIR_AVX2 bool round_avx2(const float* from, std::size_t count, Half* to) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(values), magnitude));
    store(to + i, narrow(values));
  }
  const __m256i bad = _mm256_cmpgt_epi32(largest, _mm256_set1_epi32(infinite - 1));
  const bool finite = _mm256_testz_si256(bad, bad) != 0;
  return round_portable(from + i, count - i, to + i) && finite;
}

WEIR_AVX2 void add_avx2(const Half* from, std::size_t count, Half* to) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    store(to + i, narrow(_mm256_add_ps(_mm256_cvtph_ps(load(to + i)), _mm256_cvtph_ps(load(from + i)))));
  }
  add_portable(from + i, count - i, to + i);
}

WEIR_AVX2 bool add_scaled_avx2(float weight, const Half* from, std::size_t count, float* to) {
  const __m128i magnitude = _mm_set1_epi16(0x7FFF);
  const __m256 factor = _mm256_set1_ps(weight);
  __m128i largest = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = load(from + i);
    largest = _mm_max_epu16(largest, _mm_and_si128(halves, magnitude));
    const __m256 term = _mm256_mul_ps(factor, _mm256_cvtph_ps(halves));
    _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), term));
  }
  const __m128i bad = _mm_cmpgt_epi16(largest, _mm_set1_epi16(half_max));
  const bool finite = _mm_testz_si128(bad, bad) != 0;
  return add_scaled_portable(weight, from + i, count - i, to + i) && finite;
}

#endif

template <class Number>
bool round_all(std::span<const float> from, std::span<Number> to) {
  ensure(from.size() == to.size(), "as many numbers on both sides");
#if defined(__x86_64__)
  if (has_avx2()) return round_avx2(from.data(), from.size(), to.data());
#endif
  return round_portable(from.data(), from.size(), to.data());
}

template <class Number>
void add_all(std::span<const Number> from, std::span<Number> to) {
  ensure(from.size() == to.size(), "as many numbers on both sides");
#if defined(__x86_64__)
  if (has_avx2()) return add_avx2(from.data(), from.size(), to.data());
#endif
  add_portable(from.data(), from.size(), to.data());
}

template <class Number>
bool add_scaled_all(float weight, std::span<const Number> from, std::span<float> to) {
  ensure(from.size() == to.size(), "as many numbers on both sides");
#if defined(__x86_64__)
  if (has_avx2()) return add_scaled_avx2(weight, from.data(), from.size(), to.data());
#endif
  return add_scaled_portable(weight, from.data(), from.size(), to.data());
}

}  // namespace

Half to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t rounded;
  if (magnitude > infinite) {
    rounded = 0x7E00 | (magnitude >> 13 & 0x3FF);
  } else if (magnitude >= 0x477FF000) {  // 65520, which would round to infinity
    rounded = half_max;
  } else if (magnitude < 0x38800000) {  // below 2^-14: multiples of 2^-24, which is what 1/2 has as its last place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    rounded = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    rounded = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(rounded | (bits >> 16 & 0x8000))};
}

BFloat16 to_bfloat16(float value) { return round_bfloat16(value); }

float to_float(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFF;
  std::uint32_t widened;
  if (magnitude > half_max) {
    widened = infinite | magnitude << 13 | (magnitude == half_max + 1 ? 0 : quiet);
  } else {
    widened = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F);
  }
  return std::bit_cast<float>(widened | sign);
}

float to_float(BFloat16 value) { return widen(value); }

bool round_to(std::span<const float> from, std::span<Half> to) { return round_all(from, to); }
bool round_to(std::span<const float> from, std::span<BFloat16> to) { return round_all(from, to); }

void add(std::span<const Half> from, std::span<Half> to) { add_all(from, to); }
void add(std::span<const BFloat16> from, std::span<BFloat16> to) { add_all(from, to); }

bool add_scaled(float weight, std::span<const Half> from, std::span<float> to) {
  return add_scaled_all(weight, from, to);
}
bool add_scaled(float weight, std::span<const BFloat16> from, std::span<float> to) {
  return add_scaled_all(weight, from, to);
}

}  // namespace weir
