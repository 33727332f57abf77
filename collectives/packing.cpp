#include "collectives/packing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/processor.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::collectives {
namespace {

constexpr std::size_t block = 32;  // numbers
constexpr std::uint8_t all_zero = 0;
constexpr std::uint8_t as_they_are = 255;
constexpr std::uint32_t escape = 7;  // the code of an exponent that is written out

/// A block in parts: each number's exponent, its sign with the upper mantissa, and, of a float32, its lower half.
struct Parts {
  alignas(32) std::array<std::uint8_t, block> exponents;
  alignas(32) std::array<std::uint8_t, block> high;
  alignas(32) std::array<std::uint16_t, block> low;
};

template <class Word>
constexpr std::size_t low_bytes = sizeof(Word) == 4 ? block * sizeof(std::uint16_t) : 0;
using Planes = std::array<std::uint32_t, 3>;
/// Of a coded block, but for the exponents at its end.
template <class Word>
constexpr std::size_t coded_bytes = 1 + sizeof(Planes) + low_bytes<Word> + block;

// What there is twice, with the same results: in portable C++ and in AVX2. Word: the bits of a number, uint32_t or
// uint16_t.

struct Portable {
  template <class Word>
  static void split(const Word* words, Parts& parts) {
    constexpr int upper = 8 * sizeof(Word) - 16;
    for (std::size_t i = 0; i < block; ++i) {
      const auto top = static_cast<std::uint32_t>(words[i]) >> upper;
      parts.exponents[i] = static_cast<std::uint8_t>(top >> 7);
      parts.high[i] = static_cast<std::uint8_t>((top & 0x7f) | (top >> 8 & 0x80));
      if constexpr (sizeof(Word) == 4) parts.low[i] = static_cast<std::uint16_t>(words[i]);
    }
  }

  template <class Word>
  static void join(const Parts& parts, Word* words) {
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint32_t high = parts.high[i];
      const std::uint32_t top = (high & 0x80) << 8 | std::uint32_t{parts.exponents[i]} << 7 | (high & 0x7f);
      if constexpr (sizeof(Word) == 4) {
        words[i] = top << 16 | parts.low[i];
      } else {
        words[i] = static_cast<Word>(top);
      }
    }
  }

  static std::uint8_t largest(const Parts& parts) { return *std::ranges::max_element(parts.exponents); }

  static Planes codes(const Parts& parts, std::uint8_t largest) {
    Planes planes{};
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint32_t code = std::min<std::uint32_t>(largest - parts.exponents[i], escape);
      for (std::size_t k = 0; k < planes.size(); ++k) planes[k] |= (code >> k & 1) << i;
    }
    return planes;
  }

  static void exponents(const Planes& planes, std::uint8_t largest, Parts& parts) {
    for (std::size_t i = 0; i < block; ++i) {
      std::uint32_t code = 0;
      for (std::size_t k = 0; k < planes.size(); ++k) code |= (planes[k] >> i & 1) << k;
      parts.exponents[i] = static_cast<std::uint8_t>(largest - code);
    }
  }
};

#if defined(__x86_64__)
/// The low 16 bits of 16 words of 32 bits, in order.
WEIR_AVX2 inline __m256i low_halves(__m256i first, __m256i second) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  const __m256i packed = _mm256_packus_epi32(_mm256_and_si256(first, mask), _mm256_and_si256(second, mask));
  return _mm256_permute4x64_epi64(packed, 0b11'01'10'00);
}
WEIR_AVX2 inline __m256i high_halves(__m256i first, __m256i second) {
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16));
  return _mm256_permute4x64_epi64(packed, 0b11'01'10'00);
}
/// The low bytes of 32 words of 16 bits, all below 256, in order.
WEIR_AVX2 inline __m256i low_bytes_of(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0b11'01'10'00);
}
WEIR_AVX2 inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
WEIR_AVX2 inline void store(__m256i value, void* to) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

/// Of the upper halves of 16 numbers: exponents, and signs with upper mantissas.
WEIR_AVX2 inline __m256i exponents_of(__m256i tops) {
  return _mm256_and_si256(_mm256_srli_epi16(tops, 7), _mm256_set1_epi16(0xff));
}
WEIR_AVX2 inline __m256i high_of(__m256i tops) {
  const __m256i mantissa = _mm256_and_si256(tops, _mm256_set1_epi16(0x7f));
  return _mm256_or_si256(mantissa, _mm256_and_si256(_mm256_srli_epi16(tops, 8), _mm256_set1_epi16(0x80)));
}
WEIR_AVX2 inline void split_tops(__m256i first, __m256i second, Parts& parts) {
  store(low_bytes_of(exponents_of(first), exponents_of(second)), parts.exponents.data());
  store(low_bytes_of(high_of(first), high_of(second)), parts.high.data());
}

/// 16 bytes as words of 16 bits.
WEIR_AVX2 inline __m256i widened(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
/// The upper halves of numbers 0 to 15 or 16 to 31.
WEIR_AVX2 inline __m256i join_tops(const Parts& parts, std::size_t first) {
  const __m256i high = widened(parts.high.data() + first);
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi16(0x80)), 8);
  const __m256i mantissa = _mm256_and_si256(high, _mm256_set1_epi16(0x7f));
  return _mm256_or_si256(_mm256_or_si256(sign, mantissa),
                         _mm256_slli_epi16(widened(parts.exponents.data() + first), 7));
}

struct Avx2 {
  WEIR_AVX2 static void split(const std::uint32_t* words, Parts& parts) {
    const __m256i a = load(words), b = load(words + 8), c = load(words + 16), d = load(words + 24);
    store(low_halves(a, b), parts.low.data());
    store(low_halves(c, d), parts.low.data() + 16);
    split_tops(high_halves(a, b), high_halves(c, d), parts);
  }
  WEIR_AVX2 static void split(const std::uint16_t* words, Parts& parts) {
    split_tops(load(words), load(words + 16), parts);
  }
  WEIR_AVX2 static void join(const Parts& parts, std::uint32_t* words) {
    for (std::size_t first = 0; first < block; first += 16) {
      // Interleaving works within halves of a vector: numbers 0-3 and 8-11, then 4-7 and 12-15.
      const __m256i low = load(parts.low.data() + first);
      const __m256i top = join_tops(parts, first);
      const __m256i even = _mm256_unpacklo_epi16(low, top);
      const __m256i odd = _mm256_unpackhi_epi16(low, top);
      store(_mm256_permute2x128_si256(even, odd, 0x20), words + first);
      store(_mm256_permute2x128_si256(even, odd, 0x31), words + first + 8);
    }
  }
  WEIR_AVX2 static void join(const Parts& parts, std::uint16_t* words) {
    store(join_tops(parts, 0), words);
    store(join_tops(parts, 16), words + 16);
  }

  WEIR_AVX2 static std::uint8_t largest(const Parts& parts) {
    const __m256i all = load(parts.exponents.data());
    __m128i most = _mm_max_epu8(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 8));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 4));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 2));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 1));
    return static_cast<std::uint8_t>(_mm_cvtsi128_si32(most));
  }

  WEIR_AVX2 static Planes codes(const Parts& parts, std::uint8_t largest) {
    const __m256i below = _mm256_sub_epi8(_mm256_set1_epi8(static_cast<char>(largest)), load(parts.exponents.data()));
    const __m256i code = _mm256_min_epu8(below, _mm256_set1_epi8(static_cast<char>(escape)));
    return {static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 7))),
            static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 6))),
            static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 5)))};
  }

  WEIR_AVX2 static void exponents(const Planes& planes, std::uint8_t largest, Parts& parts) {
    const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3,
                                             3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040'2010'0804'0201));
    __m256i code = _mm256_setzero_si256();
    for (std::size_t k = 0; k < planes.size(); ++k) {
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(planes[k])), byte_of);
      const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of);
      code = _mm256_or_si256(code, _mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(1U << k))));
    }
    store(_mm256_sub_epi8(_mm256_set1_epi8(static_cast<char>(largest)), code), parts.exponents.data());
  }
};
#endif

template <class T>
std::byte* put(const T& value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

/// Packs a block and returns where it ends.
template <class With, class Word>
std::byte* pack_block(const Word* words, std::byte* to) {
  Parts parts;
  With::split(words, parts);
  const std::uint8_t largest = With::largest(parts);
  std::uint32_t any = 0;
  for (std::size_t i = 0; largest == 0 && i < block; ++i) any |= words[i];
  if (largest == 0 && any == 0) return put(all_zero, to);
  if (largest > 0 && largest < 255) {
    const Planes planes = With::codes(parts, largest);
    std::uint32_t escaped = planes[0] & planes[1] & planes[2];
    if (coded_bytes<Word> + static_cast<std::size_t>(std::popcount(escaped)) <= block * sizeof(Word)) {
      to = put(planes, put(largest, to));
      if constexpr (low_bytes<Word> > 0) to = put(parts.low, to);
      to = put(parts.high, to);
      for (; escaped != 0; escaped &= escaped - 1) {
        to = put(parts.exponents[static_cast<std::size_t>(std::countr_zero(escaped))], to);
      }
      return to;
    }
  }
  to = put(as_they_are, to);
  std::memcpy(to, words, block * sizeof(Word));
  return to + block * sizeof(Word);
}

/// Reads packed bytes, and never beyond their end.
struct Reader {
  BytesView left;

  bool take(void* into, std::size_t bytes) {
    if (left.size() < bytes) return false;
    std::memcpy(into, left.data(), bytes);
    left = left.subspan(bytes);
    return true;
  }
};

/// False if the block is not whole.
template <class With, class Word>
bool unpack_block(Reader& from, Word* words) {
  std::uint8_t head = 0;
  if (!from.take(&head, 1)) return false;
  if (head == all_zero) {
    std::memset(words, 0, block * sizeof(Word));
    return true;
  }
  if (head == as_they_are) return from.take(words, block * sizeof(Word));
  Planes planes;
  Parts parts;
  const bool whole = from.take(&planes, sizeof planes) &&
                     (low_bytes<Word> == 0 || from.take(parts.low.data(), sizeof parts.low)) &&
                     from.take(parts.high.data(), sizeof parts.high);
  if (!whole) return false;
  With::exponents(planes, head, parts);
  for (std::uint32_t escaped = planes[0] & planes[1] & planes[2]; escaped != 0; escaped &= escaped - 1) {
    if (!from.take(&parts.exponents[static_cast<std::size_t>(std::countr_zero(escaped))], 1)) return false;
  }
  With::join(parts, words);
  return true;
}

template <class With, class Word>
std::byte* pack_all(BytesView numbers, std::byte* to) {
  const auto* words = reinterpret_cast<const Word*>(numbers.data());
  const std::size_t count = numbers.size() / sizeof(Word);
  for (std::size_t i = 0; i + block <= count; i += block) to = pack_block<With>(words + i, to);
  const BytesView rest = numbers.subspan(count / block * block * sizeof(Word));
  if (!rest.empty()) std::memcpy(to, rest.data(), rest.size());
  return to + rest.size();
}

template <class With, class Word>
bool unpack_all(Reader& from, std::span<std::byte> numbers) {
  auto* words = reinterpret_cast<Word*>(numbers.data());
  const std::size_t count = numbers.size() / sizeof(Word);
  for (std::size_t i = 0; i + block <= count; i += block) {
    if (!unpack_block<With>(from, words + i)) return false;
  }
  const auto rest = numbers.subspan(count / block * block * sizeof(Word));
  return (rest.empty() || from.take(rest.data(), rest.size())) && from.left.empty();
}

/// Calls `work` with what to compute with and a word of the size of the element.
template <class Work>
auto with_words_of(Element element, const Work& work) {
  const bool wide = element == Element::float32;
#if defined(__x86_64__)
  if (has_avx2()) return wide ? work(Avx2(), std::uint32_t()) : work(Avx2(), std::uint16_t());
#endif
  return wide ? work(Portable(), std::uint32_t()) : work(Portable(), std::uint16_t());
}

bool whole_numbers(Element element, BytesView bytes) {
  return bytes.size() % bytes_of(element) == 0 &&
         reinterpret_cast<std::uintptr_t>(bytes.data()) % bytes_of(element) == 0;
}

Error malformed(std::size_t bytes) {
  return {Errc::malformed, "packed numbers that are not " + std::to_string(bytes) + " bytes"};
}

}  // namespace

std::size_t pack(Element element, BytesView numbers, std::span<std::byte> out) {
  ensure(packs(element) && whole_numbers(element, numbers), "whole, aligned numbers of a type that is packed");
  ensure(out.size() >= packed_bytes_max(numbers.size()), "there is room for packed numbers");
  std::byte* begin = put(static_cast<std::uint8_t>(element), out.data());
  const std::byte* end = with_words_of(
      element, [&](auto with, auto word) { return pack_all<decltype(with), decltype(word)>(numbers, begin); });
  return static_cast<std::size_t>(end - out.data());
}

Result<void> unpack(BytesView packed, std::span<std::byte> numbers) {
  Reader from{packed};
  std::uint8_t element = 0;
  if (!from.take(&element, 1)) return malformed(numbers.size());
  const auto type = static_cast<Element>(element);
  if ((type != Element::float32 && type != Element::bfloat16) || !whole_numbers(type, numbers)) {
    return malformed(numbers.size());
  }
  const bool whole = with_words_of(
      type, [&](auto with, auto word) { return unpack_all<decltype(with), decltype(word)>(from, numbers); });
  if (!whole) return malformed(numbers.size());
  return {};
}

}  // namespace weir::collectives
