#include "compressors/kernels/random/draw.hpp"

#include <algorithm>
#include <cmath>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t lanes = 8;

[[gnu::always_inline]] inline MagnitudeSums sums_body(const float* __restrict x, std::size_t n, std::uint32_t below) {
  double sum[lanes] = {};
  std::uint32_t largest[lanes] = {};
  std::uint32_t left_out[lanes] = {};
  const auto add = [&](float value, std::size_t l) {
    const std::uint32_t bits = magnitude(value);
    sum[l] += bits < below ? static_cast<double>(std::fabs(value)) : 0.0;
    largest[l] = std::max(largest[l], bits);
    left_out[l] += (bits == 0) | (bits >= below);
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) add(x[i + l], l);
  }
  for (std::size_t l = 0; i < n; ++i, ++l) add(x[i], l);
  MagnitudeSums all{.nonzeros = n};
  for (std::size_t l = 0; l < lanes; ++l) {
    all.sum += sum[l];
    all.largest = std::max(all.largest, largest[l]);
    all.nonzeros -= left_out[l];
  }
  return all;
}

/// Compares 24 bits of the word, with a margin larger than the rounding error of the arithmetic.
[[gnu::always_inline]] inline bool may_be(float x, std::uint32_t word, float factor) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) <= std::fabs(x) * factor + 1;
}

[[gnu::always_inline]] inline std::size_t drawn_body(const float* __restrict x, const std::uint32_t* __restrict words,
                                                     std::size_t n, float factor, std::uint32_t* __restrict places) {
  constexpr std::size_t group = 16;
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + group <= n; i += group) {
    std::uint32_t any = 0;
    for (std::size_t l = 0; l < group; ++l) any |= may_be(x[i + l], words[i + l], factor);
    if (any == 0) continue;
    for (std::size_t l = i; l < i + group; ++l) {
      places[count] = static_cast<std::uint32_t>(l);
      count += may_be(x[l], words[l], factor);
    }
  }
  for (; i < n; ++i) {
    if (may_be(x[i], words[i], factor)) places[count++] = static_cast<std::uint32_t>(i);
  }
  return count;
}

#if defined(__x86_64__)
WEIR_AVX2 MagnitudeSums sums_avx2(const float* x, std::size_t n, std::uint32_t below) { return sums_body(x, n, below); }
WEIR_AVX2 std::size_t drawn_avx2(const float* x, const std::uint32_t* words, std::size_t n, float factor,
                                 std::uint32_t* places) {
  return drawn_body(x, words, n, factor, places);
}
#endif

}  // namespace

MagnitudeSums sum_magnitudes(std::span<const float> values, std::uint32_t below) {
#if defined(__x86_64__)
  if (has_avx2()) return sums_avx2(values.data(), values.size(), below);
#endif
  return sums_body(values.data(), values.size(), below);
}

std::size_t may_be_drawn(std::span<const float> values, std::span<const std::uint32_t> words, float level,
                         std::uint32_t* places) {
  ensure(words.size() >= values.size(), "a random word for each value");
  // 2^24 and a millionth more. If the level is so small that this is infinite, every value but zero qualifies.
  const float factor = 16777232.0F / level;
#if defined(__x86_64__)
  if (has_avx2()) return drawn_avx2(values.data(), words.data(), values.size(), factor, places);
#endif
  return drawn_body(values.data(), words.data(), values.size(), factor, places);
}

}  // namespace weir::compressors
