#include "compressors/kernels/pack.hpp"

#include <cstring>

#include "base/ensure.hpp"
#include "base/processor.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {
namespace {

/// A mask of the low `bits` bits of each of eight bytes.
std::uint64_t field_mask(unsigned bits) { return std::uint64_t{0x0101010101010101} * ((1U << bits) - 1); }

// Eight codes are one 64-bit word when unpacked and `bits` bytes when packed.

std::uint64_t squeeze(std::uint64_t codes, unsigned bits) {
  std::uint64_t packed = 0;
  for (unsigned i = 0; i < 8; ++i) packed |= (codes >> (8 * i) & ((1U << bits) - 1)) << (bits * i);
  return packed;
}

std::uint64_t spread(std::uint64_t packed, unsigned bits) {
  std::uint64_t codes = 0;
  for (unsigned i = 0; i < 8; ++i) codes |= (packed >> (bits * i) & ((1U << bits) - 1)) << (8 * i);
  return codes;
}

void pack_eights_portable(const std::uint8_t* codes, std::size_t eights, unsigned bits, std::byte* out) {
  for (std::size_t i = 0; i < eights; ++i, codes += 8, out += bits) {
    std::uint64_t word;
    std::memcpy(&word, codes, sizeof word);
    const std::uint64_t packed = squeeze(word, bits);
    std::memcpy(out, &packed, bits);
  }
}

void unpack_eights_portable(const std::byte* in, std::size_t eights, unsigned bits, std::uint8_t* codes) {
  for (std::size_t i = 0; i < eights; ++i, codes += 8, in += bits) {
    std::uint64_t packed = 0;
    std::memcpy(&packed, in, bits);
    const std::uint64_t word = spread(packed, bits);
    std::memcpy(codes, &word, sizeof word);
  }
}

#if defined(__x86_64__)

// Each load or store covers eight bytes, and the next store overwrites the surplus. Used while eight bytes are left.

WEIR_AVX2 void pack_eights_avx2(const std::uint8_t* codes, std::size_t eights, unsigned bits, std::byte* out) {
  const std::uint64_t mask = field_mask(bits);
  std::size_t i = 0;
  for (; (eights - i) * bits >= sizeof(std::uint64_t); ++i, codes += 8, out += bits) {
    std::uint64_t word;
    std::memcpy(&word, codes, sizeof word);
    const std::uint64_t packed = _pext_u64(word, mask);
    std::memcpy(out, &packed, sizeof packed);
  }
  pack_eights_portable(codes, eights - i, bits, out);
}

WEIR_AVX2 void unpack_eights_avx2(const std::byte* in, std::size_t eights, unsigned bits, std::uint8_t* codes) {
  const std::uint64_t mask = field_mask(bits);
  std::size_t i = 0;
  for (; (eights - i) * bits >= sizeof(std::uint64_t); ++i, codes += 8, in += bits) {
    std::uint64_t packed;
    std::memcpy(&packed, in, sizeof packed);
    const std::uint64_t word = _pdep_u64(packed, mask);
    std::memcpy(codes, &word, sizeof word);
  }
  unpack_eights_portable(in, eights - i, bits, codes);
}

#endif

}  // namespace

void pack(std::span<const std::uint8_t> codes, unsigned bits, std::span<std::byte> out) {
  ensure(bits >= 1 && bits <= 8 && out.size() == packed_bytes(codes.size(), bits), "room for packed codes");
  const std::size_t eights = codes.size() / 8;
#if defined(__x86_64__)
  if (has_avx2()) {
    pack_eights_avx2(codes.data(), eights, bits, out.data());
  } else {
    pack_eights_portable(codes.data(), eights, bits, out.data());
  }
#else
  pack_eights_portable(codes.data(), eights, bits, out.data());
#endif
  if (codes.size() % 8 == 0) return;
  std::uint64_t word = 0;
  std::memcpy(&word, codes.data() + 8 * eights, codes.size() % 8);
  const std::uint64_t packed = squeeze(word, bits);
  std::memcpy(out.data() + bits * eights, &packed, packed_bytes(codes.size() % 8, bits));
}

void unpack(BytesView in, unsigned bits, std::span<std::uint8_t> codes) {
  ensure(bits >= 1 && bits <= 8 && in.size() == packed_bytes(codes.size(), bits), "as many packed codes as asked for");
  const std::size_t eights = codes.size() / 8;
#if defined(__x86_64__)
  if (has_avx2()) {
    unpack_eights_avx2(in.data(), eights, bits, codes.data());
  } else {
    unpack_eights_portable(in.data(), eights, bits, codes.data());
  }
#else
  unpack_eights_portable(in.data(), eights, bits, codes.data());
#endif
  if (codes.size() % 8 == 0) return;
  std::uint64_t packed = 0;
  std::memcpy(&packed, in.data() + bits * eights, packed_bytes(codes.size() % 8, bits));
  const std::uint64_t word = spread(packed, bits);
  std::memcpy(codes.data() + 8 * eights, &word, codes.size() % 8);
}

bool padding_is_zero(BytesView in, std::size_t count, unsigned bits) {
  const std::size_t used = count * bits % 8;
  return used == 0 || std::to_integer<unsigned>(in[packed_bytes(count, bits) - 1]) >> used == 0;
}

}  // namespace weir::compressors
