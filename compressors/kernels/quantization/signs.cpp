#include "compressors/kernels/quantization/signs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {
namespace {

/// Partial sums of a block: its entry i is added to lane i % 8.
struct Lanes {
  std::array<double, 8> positive{};
  std::array<double, 8> negative{};
  std::uint64_t negatives = 0;
};

/// The smallest and the largest magnitude() of some values.
struct Extremes {
  std::uint32_t least = ~0U;
  std::uint32_t largest = 0;
};

void write_portable(const float* x, std::size_t n, std::byte* bits, Extremes& extremes, Lanes* lanes) {
  for (std::size_t start = 0; start < n; start += 8) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < 8 && start + j < n; ++j) {
      const float value = x[start + j];
      extremes.least = std::min(extremes.least, magnitude(value));
      extremes.largest = std::max(extremes.largest, magnitude(value));
      byte |= static_cast<unsigned>(value < 0) << j;
      if (lanes == nullptr) continue;
      lanes->positive[j] += value > 0 ? value : 0;
      lanes->negative[j] += value < 0 ? value : 0;
    }
    *bits++ = static_cast<std::byte>(byte);
    if (lanes != nullptr) lanes->negatives += static_cast<std::uint64_t>(std::popcount(byte));
  }
}

/// The coins of the eight entries from entry i on. One word holds the coins of 16 entries.
std::uint32_t coins_of_eight(const std::uint32_t* words, std::size_t i) { return words[i / 16] >> i % 16 & 0xFF; }

/// Sets the bits of zeros, which are clear so far, to their coins, starting at entry `i` of the block.
void toss_portable(const float* x, std::size_t i, std::size_t n, const std::uint32_t* words, std::byte* bits) {
  for (; i < n; i += 8) {
    unsigned zeros = 0;
    for (std::size_t j = 0; j < 8 && i + j < n; ++j) zeros |= static_cast<unsigned>(magnitude(x[i + j]) == 0) << j;
    bits[i / 8] |= static_cast<std::byte>(zeros & coins_of_eight(words, i));
  }
}

void add_portable(const std::byte* bits, std::size_t n, float positive, float negative, float* sum) {
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] += std::to_integer<unsigned>(bits[i / 8]) >> i % 8 & 1 ? negative : positive;
  }
}

#if defined(__x86_64__)

/// How far ahead a loop prefetches, in floats; the hardware prefetcher stops at every page boundary. Prefetching past
/// the end of an array is harmless.
constexpr std::size_t ahead = 1024;

WEIR_AVX2 inline void prefetch_ahead(const float* x) {
  _mm_prefetch(reinterpret_cast<const char*>(x + ahead), _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(x + ahead + 16), _MM_HINT_T0);
}

/// The sums, in two registers of four lanes each.
struct VectorLanes {
  __m256d positive[2];
  __m256d negative[2];
};

WEIR_AVX2 inline void add_halves(__m256d (&to)[2], __m256 values) {
  to[0] = _mm256_add_pd(to[0], _mm256_cvtps_pd(_mm256_castps256_ps128(values)));
  to[1] = _mm256_add_pd(to[1], _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
}

struct VectorExtremes {
  __m256i least;
  __m256i largest;
};

WEIR_AVX2 inline __m256i magnitudes_of(__m256 values) {
  return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7FFFFFFF));
}

template <bool with_sums>
WEIR_AVX2 inline unsigned take_eight(const float* x, VectorExtremes& extremes, VectorLanes& lanes) {
  const __m256 zero = _mm256_setzero_ps();
  const __m256 values = _mm256_loadu_ps(x);
  const __m256i magnitudes = magnitudes_of(values);
  extremes.largest = _mm256_max_epu32(extremes.largest, magnitudes);
  if constexpr (!with_sums) extremes.least = _mm256_min_epu32(extremes.least, magnitudes);
  if constexpr (with_sums) {
    add_halves(lanes.positive, _mm256_max_ps(values, zero));
    add_halves(lanes.negative, _mm256_min_ps(values, zero));
  }
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(values, zero, _CMP_LT_OQ)));
}

template <bool with_sums>
WEIR_AVX2 void write_avx2(const float* x, std::size_t n, std::byte* bits, Extremes& extremes, Lanes* sums) {
  VectorExtremes vectors = {_mm256_set1_epi32(-1), _mm256_setzero_si256()};
  VectorLanes lanes = {};
  if constexpr (with_sums) {
    for (std::size_t half = 0; half < 2; ++half) {
      lanes.positive[half] = _mm256_loadu_pd(sums->positive.data() + 4 * half);
      lanes.negative[half] = _mm256_loadu_pd(sums->negative.data() + 4 * half);
    }
  }
  std::size_t i = 0;
  std::uint64_t negatives = 0;
  for (; i + 32 <= n; i += 32, bits += 4) {
    prefetch_ahead(x + i);
    std::uint32_t word = take_eight<with_sums>(x + i, vectors, lanes);
    word |= take_eight<with_sums>(x + i + 8, vectors, lanes) << 8;
    word |= take_eight<with_sums>(x + i + 16, vectors, lanes) << 16;
    word |= take_eight<with_sums>(x + i + 24, vectors, lanes) << 24;
    std::memcpy(bits, &word, sizeof word);
    if constexpr (with_sums) negatives += static_cast<std::uint64_t>(_mm_popcnt_u32(word));
  }
  if constexpr (with_sums) {
    for (std::size_t half = 0; half < 2; ++half) {
      _mm256_storeu_pd(sums->positive.data() + 4 * half, lanes.positive[half]);
      _mm256_storeu_pd(sums->negative.data() + 4 * half, lanes.negative[half]);
    }
    sums->negatives += negatives;
  }
  std::array<std::uint32_t, 8> least;
  std::array<std::uint32_t, 8> largest;
  std::memcpy(least.data(), &vectors.least, sizeof least);
  std::memcpy(largest.data(), &vectors.largest, sizeof largest);
  extremes.least = std::min(extremes.least, *std::ranges::min_element(least));
  extremes.largest = std::max(extremes.largest, *std::ranges::max_element(largest));
  write_portable(x + i, n - i, bits, extremes, sums);
}

WEIR_AVX2 void toss_avx2(const float* x, std::size_t n, const std::uint32_t* words, std::byte* bits) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i is_zero = _mm256_cmpeq_epi32(magnitudes_of(_mm256_loadu_ps(x + i)), _mm256_setzero_si256());
    const auto zeros = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(is_zero)));
    bits[i / 8] |= static_cast<std::byte>(zeros & coins_of_eight(words, i));
  }
  toss_portable(x, i, n, words, bits);
}

WEIR_AVX2 void add_avx2(const std::byte* bits, std::size_t n, float positive, float negative, float* sum) {
  const __m256i lane_bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256 clear = _mm256_set1_ps(positive);
  const __m256 set = _mm256_set1_ps(negative);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32, bits += 4) {
    prefetch_ahead(sum + i);
    std::uint32_t word;
    std::memcpy(&word, bits, sizeof word);
    for (std::size_t j = 0; j < 32; j += 8, word >>= 8) {
      const __m256i here = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(word)), lane_bit);
      const __m256 is_set = _mm256_castsi256_ps(_mm256_cmpeq_epi32(here, lane_bit));
      float* to = sum + i + j;
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_blendv_ps(clear, set, is_set)));
    }
  }
  add_portable(bits, n - i, positive, negative, sum + i);
}

#endif

Extremes write_block(std::span<const float> values, std::byte* bits, Lanes* sums) {
  Extremes extremes;
#if defined(__x86_64__)
  if (has_avx2()) {
    sums == nullptr ? write_avx2<false>(values.data(), values.size(), bits, extremes, sums)
                    : write_avx2<true>(values.data(), values.size(), bits, extremes, sums);
    return extremes;
  }
#endif
  write_portable(values.data(), values.size(), bits, extremes, sums);
  return extremes;
}

/// The random words that hold the coins of a block.
using VoteWords = std::array<std::uint32_t, vote_block / 16>;

void toss(std::span<const float> values, const VoteWords& words, std::byte* bits) {
#if defined(__x86_64__)
  if (has_avx2()) return toss_avx2(values.data(), values.size(), words.data(), bits);
#endif
  toss_portable(values.data(), 0, values.size(), words.data(), bits);
}

}  // namespace

bool write_votes(std::span<const float> values, std::uint64_t first, const RandomKey& coins,
                 std::span<std::byte> bits) {
  ensure(bits.size() == sign_bytes(values.size()), "a bit for every value");
  ensure(first % vote_block == 0, "votes start at a block");
  VoteWords words;
  for (std::size_t start = 0; start < values.size(); start += vote_block) {
    const auto block = values.subspan(start, std::min(vote_block, values.size() - start));
    const Extremes extremes = write_block(block, bits.data() + start / 8, nullptr);
    if (extremes.largest >= magnitude_infinite) return false;
    if (extremes.least > 0) continue;
    fill_random(coins, (first + start) / 16, words);
    toss(block, words, bits.data() + start / 8);
  }
  return true;
}

bool write_signs(std::span<const float> values, std::span<std::byte> bits) {
  ensure(bits.size() == sign_bytes(values.size()), "a bit for every value");
  return write_block(values, bits.data(), nullptr).largest < magnitude_infinite;
}

bool write_signs(std::span<const float> values, std::span<std::byte> bits, SignSums& sums) {
  ensure(bits.size() == sign_bytes(values.size()), "a bit for every value");
  const auto add = [](SignSums& to, const SignSums& from) {
    to.positive += from.positive;
    to.negative += from.negative;
    to.negatives += from.negatives;
  };
  SignSums run;
  for (std::size_t start = 0; start < values.size(); start += sign_sum_block) {
    Lanes lanes;
    const auto block = values.subspan(start, std::min(sign_sum_block, values.size() - start));
    if (write_block(block, bits.data() + start / 8, &lanes).largest >= magnitude_infinite) return false;
    add(run, {.positive = std::accumulate(lanes.positive.begin(), lanes.positive.end(), 0.0),
              .negative = std::accumulate(lanes.negative.begin(), lanes.negative.end(), 0.0),
              .negatives = lanes.negatives});
    const std::size_t end = start + block.size();
    if (end % sign_sum_run != 0 && end < values.size()) continue;
    add(sums, run);
    run = {};
  }
  return true;
}

void add_by_sign(BytesView bits, float positive, float negative, std::span<float> sum) {
  ensure(bits.size() == sign_bytes(sum.size()), "a bit for every entry");
#if defined(__x86_64__)
  if (has_avx2()) return add_avx2(bits.data(), sum.size(), positive, negative, sum.data());
#endif
  add_portable(bits.data(), sum.size(), positive, negative, sum.data());
}

void take_majority(float least, const RandomKey& coins, std::span<float> values) {
  VoteWords words;
  for (std::size_t start = 0; start < values.size(); start += vote_block) {
    const auto block = values.subspan(start, std::min(vote_block, values.size() - start));
    const auto is_tie = [least](float value) { return std::fabs(value) < least; };
    bool tied = false;
    for (const float value : block) tied |= is_tie(value);
    if (!tied) {
      for (float& value : block) value = std::copysign(1.0F, value);
      continue;
    }
    fill_random(coins, start / 16, words);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float coin = words[i / 16] >> i % 16 & 1 ? -1.0F : 1.0F;
      block[i] = is_tie(block[i]) ? coin : std::copysign(1.0F, block[i]);
    }
  }
}

}  // namespace weir::compressors
