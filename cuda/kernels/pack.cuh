#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace weir::cuda {

// Eight codes are one 64-bit word when unpacked and `bits` bytes when packed. Neighbours are joined or parted: bytes,
// then pairs, then fours.

inline constexpr std::uint64_t even_bytes = 0x00FF00FF00FF00FFU;
inline constexpr std::uint64_t even_pairs = 0x0000FFFF0000FFFFU;
inline constexpr std::uint64_t even_fours = 0x00000000FFFFFFFFU;

/// The codes have no more than `bits` bits.
__device__ inline std::uint64_t squeeze(std::uint64_t codes, unsigned bits) {
  codes = (codes & even_bytes) | (codes & ~even_bytes) >> (8 - bits);
  codes = (codes & even_pairs) | (codes & ~even_pairs) >> (16 - 2 * bits);
  return (codes & even_fours) | (codes & ~even_fours) >> (32 - 4 * bits);
}

__device__ inline std::uint64_t spread(std::uint64_t packed, unsigned bits) {
  const std::uint64_t fours = ((std::uint64_t{1} << 4 * bits) - 1) * 0x0000000100000001U;
  const std::uint64_t pairs = ((std::uint64_t{1} << 2 * bits) - 1) * 0x0001000100010001U;
  const std::uint64_t ones = ((std::uint64_t{1} << bits) - 1) * 0x0101010101010101U;
  packed = ((packed & even_fours) | (packed << (32 - 4 * bits) & ~even_fours)) & fours;
  packed = ((packed & even_pairs) | (packed << (16 - 2 * bits) & ~even_pairs)) & pairs;
  return ((packed & even_bytes) | (packed << (8 - bits) & ~even_bytes)) & ones;
}

}  // namespace weir::cuda
