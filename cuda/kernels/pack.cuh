#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace weir::cuda {

// Eight codes are one 64-bit word when unpacked and `bits` bytes when packed. Neighbours are joined or parted: bytes,
// then pairs, then fours.

/// The codes have no more than `bits` bits.
__device__ inline std::uint64_t squeeze(std::uint64_t codes, unsigned bits) {
  codes = (codes & 0x00FF00FF00FF00FFU) | (codes >> 8 & 0x00FF00FF00FF00FFU) << bits;
  codes = (codes & 0x0000FFFF0000FFFFU) | (codes >> 16 & 0x0000FFFF0000FFFFU) << 2 * bits;
  return (codes & 0x00000000FFFFFFFFU) | codes >> 32 << 4 * bits;
}

__device__ inline std::uint64_t spread(std::uint64_t packed, unsigned bits) {
  const std::uint64_t fours = (std::uint64_t{1} << 4 * bits) - 1;
  const std::uint64_t pairs = ((std::uint64_t{1} << 2 * bits) - 1) * 0x0000000100000001U;
  const std::uint64_t ones = ((std::uint64_t{1} << bits) - 1) * 0x0001000100010001U;
  packed = (packed & fours) | (packed >> 4 * bits & fours) << 32;
  packed = (packed & pairs) | (packed >> 2 * bits & pairs) << 16;
  return (packed & ones) | (packed >> bits & ones) << 8;
}

}  // namespace weir::cuda
