#include "compressors/kernels/random/random.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ensure.hpp"
#include "base/philox.hpp"
#include "base/processor.hpp"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#if !defined(__clang__)  // gcc 12 takes the deliberately undefined operands of AVX-512 for a mistake (its bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace weir::compressors {
namespace {

constexpr std::size_t group = 64;  // entries that share eight consecutive counters
constexpr std::size_t lanes = 8;

/// The counter of block `block`, which is the number of a group times eight, plus a lane.
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

constexpr std::size_t rounds = 10;

/// The keys of the rounds.
struct RoundKeys {
  explicit RoundKeys(std::uint64_t seed) {
    auto key0 = static_cast<std::uint32_t>(seed);
    auto key1 = static_cast<std::uint32_t>(seed >> 32);
    for (std::size_t round = 0; round < rounds; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
      first[round] = key0;
      second[round] = key1;
    }
  }
  std::array<std::uint32_t, rounds> first;
  std::array<std::uint32_t, rounds> second;
};

/// The words of four counters, each in the low half of a 64-bit lane. The high halves hold the upper parts of products,
/// which the multiplication ignores.
struct Quarter {
  __m256i c0;
  __m256i c1;
  __m256i c2;
  __m256i c3;
};

WEIR_AVX2 inline void do_round(Quarter& q, __m256i key0, __m256i key1) {
  const __m256i p0 = _mm256_mul_epu32(q.c0, _mm256_set1_epi64x(0xD2511F53));
  const __m256i p2 = _mm256_mul_epu32(q.c2, _mm256_set1_epi64x(0xCD9E8D57));
  q.c0 = _mm256_xor_si256(_mm256_srli_epi64(p2, 32), _mm256_xor_si256(q.c1, key0));
  q.c1 = p2;
  q.c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(q.c3, key1));
  q.c3 = p0;
}

/// Interleaves the words of even and odd counters.
WEIR_AVX2 inline __m256i join(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

WEIR_AVX2 inline __m256i rotate16(__m256i x) {
  const __m256i order = _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,  //
                                         2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return _mm256_shuffle_epi8(x, order);
}

/// Fills several consecutive groups at once, which keeps the multipliers busy.
template <std::size_t groups>
WEIR_AVX2 inline void fill_some(const RoundKeys& keys, Quarter start, std::uint32_t* out) {
  Quarter quarters[2 * groups];
  for (std::size_t i = 0; i < 2 * groups; ++i) {
    quarters[i] = start;
    quarters[i].c0 = _mm256_add_epi32(start.c0, _mm256_set1_epi32(static_cast<int>(i / 2 * lanes + i % 2)));
  }
#pragma GCC unroll 10
  for (std::size_t round = 0; round < rounds; ++round) {
    const __m256i key0 = _mm256_set1_epi32(static_cast<int>(keys.first[round]));
    const __m256i key1 = _mm256_set1_epi32(static_cast<int>(keys.second[round]));
    for (Quarter& quarter : quarters) do_round(quarter, key0, key1);
  }
  auto* to = reinterpret_cast<__m256i*>(out);
  for (std::size_t i = 0; i < 2 * groups; i += 2) {
    const Quarter& even = quarters[i];
    const Quarter& odd = quarters[i + 1];
    for (const __m256i words :
         {join(even.c0, odd.c0), join(even.c1, odd.c1), join(even.c2, odd.c2), join(even.c3, odd.c3)}) {
      _mm256_storeu_si256(to++, words);
      _mm256_storeu_si256(to++, rotate16(words));
    }
  }
}

WEIR_AVX2 void fill_groups_avx2(const RandomKey& key, std::uint64_t first_block, std::size_t groups,
                                std::uint32_t* out) {
  const RoundKeys keys(key.seed);
  const Philox::Block start = counter(key, first_block);
  const auto all = [&](std::size_t word) { return static_cast<int>(start[word]); };
  Quarter at = {_mm256_add_epi32(_mm256_set1_epi32(all(0)), _mm256_setr_epi32(0, 0, 2, 0, 4, 0, 6, 0)),
                _mm256_set1_epi32(all(1)), _mm256_set1_epi32(all(2)), _mm256_set1_epi32(all(3))};
  for (; groups >= 2; groups -= 2, out += 2 * group) {
    fill_some<2>(keys, at, out);
    at.c0 = _mm256_add_epi32(at.c0, _mm256_set1_epi32(static_cast<int>(2 * lanes)));
  }
  if (groups > 0) fill_some<1>(keys, at, out);
}

/// The words of the eight counters of a group, each in the low half of a 64-bit lane, as in Quarter.
struct Octet {
  __m512i c0;
  __m512i c1;
  __m512i c2;
  __m512i c3;
};

WEIR_AVX512 inline void do_round(Octet& q, __m512i key0, __m512i key1) {
  constexpr int exclusive_or = 0x96;  // of three operands
  const __m512i p0 = _mm512_mul_epu32(q.c0, _mm512_set1_epi64(0xD2511F53));
  const __m512i p2 = _mm512_mul_epu32(q.c2, _mm512_set1_epi64(0xCD9E8D57));
  q.c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p2, 32), q.c1, key0, exclusive_or);
  q.c1 = p2;
  q.c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), q.c3, key1, exclusive_or);
  q.c3 = p0;
}

template <std::size_t groups>
WEIR_AVX512 inline void fill_some(const RoundKeys& keys, Octet start, std::uint32_t* out) {
  Octet octets[groups];
  for (std::size_t i = 0; i < groups; ++i) {
    octets[i] = start;
    octets[i].c0 = _mm512_add_epi32(start.c0, _mm512_set1_epi32(static_cast<int>(i * lanes)));
  }
#pragma GCC unroll 10
  for (std::size_t round = 0; round < rounds; ++round) {
    const __m512i key0 = _mm512_set1_epi64(keys.first[round]);
    const __m512i key1 = _mm512_set1_epi64(keys.second[round]);
    for (Octet& octet : octets) do_round(octet, key0, key1);
  }
  for (const Octet& octet : octets) {
    for (const __m512i words : {octet.c0, octet.c1, octet.c2, octet.c3}) {
      const __m256i low = _mm512_cvtepi64_epi32(words);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), low);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + lanes), _mm256_ror_epi32(low, 16));
      out += 2 * lanes;
    }
  }
}

WEIR_AVX512 void fill_groups_avx512(const RandomKey& key, std::uint64_t first_block, std::size_t groups,
                                    std::uint32_t* out) {
  const RoundKeys keys(key.seed);
  const Philox::Block start = counter(key, first_block);
  const auto all = [&](std::size_t word) { return static_cast<int>(start[word]); };
  Octet at = {_mm512_add_epi32(_mm512_set1_epi32(all(0)), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)),
              _mm512_set1_epi32(all(1)), _mm512_set1_epi32(all(2)), _mm512_set1_epi32(all(3))};
  for (; groups >= 4; groups -= 4, out += 4 * group) {
    fill_some<4>(keys, at, out);
    at.c0 = _mm512_add_epi32(at.c0, _mm512_set1_epi32(static_cast<int>(4 * lanes)));
  }
  for (; groups > 0; --groups, out += group) {
    fill_some<1>(keys, at, out);
    at.c0 = _mm512_add_epi32(at.c0, _mm512_set1_epi32(static_cast<int>(lanes)));
  }
}

#endif

void fill_groups(const RandomKey& key, std::uint64_t first_block, std::size_t groups, std::uint32_t* out) {
#if defined(__x86_64__)
  if (has_avx512()) return fill_groups_avx512(key, first_block, groups, out);
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
