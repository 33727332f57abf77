#pragma once

#include <cstdint>

namespace weir::compressors {

// The hash functions of the sketches; some wire formats depend on them. Both are the finalizers of MurmurHash3
// (Appleby 2011): bijective, and every bit of the result depends on every bit of `x`.

constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53;
  return x ^ x >> 33;
}

constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x85EBCA6B;
  x = (x ^ x >> 13) * 0xC2B2AE35;
  return x ^ x >> 16;
}

/// Maps a hash uniformly to [0, size).
constexpr std::uint32_t scaled_hash(std::uint32_t hash, std::uint32_t size) {
  return static_cast<std::uint32_t>(std::uint64_t{hash} * size >> 32);
}

}  // namespace weir::compressors
