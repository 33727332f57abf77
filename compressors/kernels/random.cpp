#include "compressors/kernels/random.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ensure.hpp"
#include "base/philox.hpp"
#include "compressors/kernels/processor.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {
namespace {

constexpr std::size_t group = 64;  // entries that eight neighbouring counters serve
constexpr std::size_t lanes = 8;

/// The counter of block `block`: the number of a group times eight, plus a lane.
Philox::Block counter(const RandomKey& key, std::uint64_t block) {
  const auto step_high = static_cast<std::uint32_t>(key.step >> 32 & 0xFFFF);
  return {static_cast<std::uint32_t>(block), key.tensor, static_cast<std::uint32_t>(key.step),
          step_high | static_cast<std::uint32_t>(key.stream) << 16};
}

void fill_group_portable(const RandomKey& key, std::uint64_t first_block, std::uint32_t* out) {
  const Philox philox(key.seed);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const Philox::Block words = philox.at(counter(key, first_block + lane));
    for (std::size_t word = 0; word < words.size(); ++word) {
      out[16 * word + lane] = words[word];
      out[16 * word + 8 + lane] = std::rotl(words[word], 16);
    }
  }
}

#if defined(__x86_64__)

/// The high and low halves of eight products with a constant.
struct Product {
  __m256i high;
  __m256i low;
};

WEIR_AVX2 inline Product multiply(__m256i x, __m256i factor) {
  const __m256i even = _mm256_mul_epu32(x, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
}

WEIR_AVX2 inline __m256i rotate16(__m256i x) {
  return _mm256_or_si256(_mm256_slli_epi32(x, 16), _mm256_srli_epi32(x, 16));
}

WEIR_AVX2 void fill_groups_avx2(const RandomKey& key, std::uint64_t first_block, std::size_t groups,
                                std::uint32_t* out) {
  const Philox::Block start = counter(key, first_block);
  const __m256i factor0 = _mm256_set1_epi32(static_cast<int>(0xD2511F53));
  const __m256i factor2 = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57));
  __m256i block =
      _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(start[0])), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::size_t g = 0; g < groups; ++g, out += group) {
    __m256i c0 = block;
    __m256i c1 = _mm256_set1_epi32(static_cast<int>(start[1]));
    __m256i c2 = _mm256_set1_epi32(static_cast<int>(start[2]));
    __m256i c3 = _mm256_set1_epi32(static_cast<int>(start[3]));
    auto key0 = static_cast<std::uint32_t>(key.seed);
    auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
      const Product p0 = multiply(c0, factor0);
      const Product p2 = multiply(c2, factor2);
      c0 = _mm256_xor_si256(_mm256_xor_si256(p2.high, c1), _mm256_set1_epi32(static_cast<int>(key0)));
      c1 = p2.low;
      c2 = _mm256_xor_si256(_mm256_xor_si256(p0.high, c3), _mm256_set1_epi32(static_cast<int>(key1)));
      c3 = p0.low;
    }
    auto* to = reinterpret_cast<__m256i*>(out);
    for (const __m256i words : {c0, c1, c2, c3}) {
      _mm256_storeu_si256(to++, words);
      _mm256_storeu_si256(to++, rotate16(words));
    }
    block = _mm256_add_epi32(block, _mm256_set1_epi32(static_cast<int>(lanes)));
  }
}

#endif

void fill_groups(const RandomKey& key, std::uint64_t first_block, std::size_t groups, std::uint32_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return fill_groups_avx2(key, first_block, groups, out);
#endif
  for (std::size_t g = 0; g < groups; ++g) fill_group_portable(key, first_block + lanes * g, out + group * g);
}

}  // namespace

void fill_random(const RandomKey& key, std::uint64_t begin, std::span<std::uint32_t> out) {
  ensure(begin % group == 0, "random words start at a group");
  const std::size_t whole = out.size() / group;
  fill_groups(key, begin / group * lanes, whole, out.data());
  if (out.size() % group == 0) return;
  std::array<std::uint32_t, group> last{};
  fill_groups(key, begin / group * lanes + whole * lanes, 1, last.data());
  std::copy_n(last.begin(), out.size() % group, out.begin() + static_cast<std::ptrdiff_t>(whole * group));
}

std::uint32_t random_word(const RandomKey& key, std::uint64_t entry) {
  const std::uint64_t block = entry / group * lanes + entry % lanes;
  const std::uint32_t word = Philox(key.seed).at(counter(key, block))[entry % group / 16];
  return entry % 16 < 8 ? word : std::rotl(word, 16);
}

}  // namespace weir::compressors
