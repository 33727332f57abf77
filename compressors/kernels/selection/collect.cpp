#include "compressors/kernels/selection/collect.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {
namespace {

std::size_t collect_portable(const float* x, std::size_t n, std::uint32_t least, std::uint32_t* positions,
                             float* values) {
  constexpr std::size_t block = collect_slack;
  std::size_t found = 0;
  for (std::size_t start = 0; start < n; start += block) {
    const std::size_t end = std::min(n, start + block);
    std::uint32_t any = 0;  // most blocks have nothing to keep: one test for the whole block, without branches
    for (std::size_t i = start; i < end; ++i) any |= magnitude(x[i]) >= least;
    if (any == 0) continue;
    for (std::size_t i = start; i < end; ++i) {
      positions[found] = static_cast<std::uint32_t>(i);
      values[found] = x[i];
      found += magnitude(x[i]) >= least;
    }
  }
  return found;
}

#if defined(__x86_64__)

/// For each mask of eight lanes, the numbers of the lanes that are set, packed to the front. Stands in for a compress
/// instruction, which AVX2 lacks.
constexpr auto lanes_of_mask = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) table[mask][next++] = static_cast<std::uint8_t>(lane);
    }
  }
  return table;
}();

WEIR_AVX2 inline __m256i load_magnitudes(const float* x) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
}

WEIR_AVX2 inline unsigned mask_of(__m256i lanes) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
}

WEIR_AVX2 std::size_t collect_avx2(const float* x, std::size_t n, std::uint32_t least, std::uint32_t* positions,
                                   float* values) {
  static_assert(collect_slack == 32, "four vectors of eight at a time");
  // Magnitudes are below 2^31, so the signed comparison is correct.
  const __m256i below = _mm256_set1_epi32(static_cast<int>(least - 1));
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i keep[4] = {
        _mm256_cmpgt_epi32(load_magnitudes(x + i), below), _mm256_cmpgt_epi32(load_magnitudes(x + i + 8), below),
        _mm256_cmpgt_epi32(load_magnitudes(x + i + 16), below), _mm256_cmpgt_epi32(load_magnitudes(x + i + 24), below)};
    const __m256i any = _mm256_or_si256(_mm256_or_si256(keep[0], keep[1]), _mm256_or_si256(keep[2], keep[3]));
    if (_mm256_testz_si256(any, any)) continue;
    for (unsigned part = 0; part < 4; ++part) {
      const unsigned mask = mask_of(keep[part]);
      const std::size_t at = i + 8 * part;
      const auto packed = std::bit_cast<long long>(lanes_of_mask[mask]);
      const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(packed));
      const __m256i position = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(at)), lanes);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions + found), _mm256_permutevar8x32_epi32(position, order));
      _mm256_storeu_ps(values + found, _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + at), order));
      found += static_cast<std::size_t>(std::popcount(mask));
    }
  }
  for (; i < n; ++i) {
    positions[found] = static_cast<std::uint32_t>(i);
    values[found] = x[i];
    found += magnitude(x[i]) >= least;
  }
  return found;
}

#endif

}  // namespace

std::size_t collect_above(const float* x, std::size_t n, std::uint32_t least, std::uint32_t* positions, float* values) {
#if defined(__x86_64__)
  if (has_avx2()) return collect_avx2(x, n, least, positions, values);
#endif
  return collect_portable(x, n, least, positions, values);
}

}  // namespace weir::compressors
