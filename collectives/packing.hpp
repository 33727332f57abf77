#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/reduce.hpp"

namespace weir::collectives {

// Numbers in fewer bytes, without loss. Of a float's 32 bits the sign and the mantissa look random, but its exponent is
// much like that of its neighbours: eight bits that hold about three. Gradients whose entries are normally distributed
// take 0.86 of their bytes, in bfloat16 0.72; a block of zeros takes one byte.
//
// Packed numbers, little-endian: u8 element, then blocks of 32 numbers, then the numbers that fill no block, as they
// are. A block begins with u8 head:
//
//     0        all 32 numbers are zero (and positive); nothing follows
//     255      the numbers as they are follow
//     1-254    the largest exponent among them; what follows is
//              u32 code bits[3]   bit i of word k is bit k of number i's code: how far its exponent is below the
//                                 largest one; 7 means that its exponent is among those at the end of the block
//              u16 low bits[32]   the lower half of each number; not of bfloat16, which is the upper half of a float32
//              u8  high bits[32]  the sign, then the upper seven bits of the mantissa
//              u8  exponents[]    of the numbers with code 7, in their order

/// Whether numbers of this type are packed: float32 and bfloat16. A float16 has too few exponents to gain by it.
constexpr bool packs(Element element) { return element != Element::float16; }

/// The part of their bytes that numbers of this type take, packed, if they are normally distributed, as the entries of
/// a gradient are, about.
constexpr double usual_packed_share(Element element) {
  if (!packs(element)) return 1;
  return element == Element::float32 ? 0.857 : 0.714;
}

/// What packing takes of the processors, for each byte of the numbers. Infinite: they are not packed.
struct PackingCosts {
  double pack_seconds_per_byte = std::numeric_limits<double>::infinity();
  double unpack_seconds_per_byte = std::numeric_limits<double>::infinity();

  /// Whether it saves more of the time of a line than it takes, if packed numbers take this part of their bytes.
  bool are_worth(double packed_share, double line_seconds_per_byte) const {
    return (1 - packed_share) * line_seconds_per_byte > pack_seconds_per_byte + unpack_seconds_per_byte;
  }

  friend bool operator==(const PackingCosts&, const PackingCosts&) = default;
};

/// What so many bytes of numbers take at most.
constexpr std::size_t packed_bytes_max(std::size_t bytes) { return bytes + bytes / 64 + 1; }

/// Packs numbers into `out`, which has room for packed_bytes_max() of them, and returns how many bytes they take.
std::size_t pack(Element element, BytesView numbers, std::span<std::byte> out);

/// The numbers again, bit for bit. Fails with: malformed (`packed` is not what pack() makes of as many bytes).
Result<void> unpack(BytesView packed, std::span<std::byte> numbers);

}  // namespace weir::collectives
