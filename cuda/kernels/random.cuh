#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/philox.hpp"
#include "cuda/kernels/random.hpp"

namespace weir::cuda {

// The random words of compressors/kernels/random/random.hpp. 64 entries share eight counters: the words of counter
// 8 * group + l are those of the group's entries l, l + 8, ..., l + 56, two entries a word. So eight threads that take
// a group, each every eighth entry, compute each Philox block once.

inline constexpr unsigned random_group = 64;
inline constexpr unsigned random_lanes = 8;

/// The four words at counter `block` of the key's stream.
__device__ inline Philox::Block random_block(const RandomKey& key, std::uint64_t block) {
  const auto step_high = static_cast<std::uint32_t>(key.step >> 32 & 0xFFFF);
  return Philox(key.seed).at({static_cast<std::uint32_t>(block), key.tensor, static_cast<std::uint32_t>(key.step),
                              step_high | static_cast<std::uint32_t>(key.stream) << 16});
}

/// The word of the entry l + 8 * k of the group whose counter 8 * group + l has these words.
__device__ inline std::uint32_t word_of(const Philox::Block& words, unsigned k) {
  const std::uint32_t word = words[k / 2];
  return k % 2 == 0 ? word : word << 16 | word >> 16;
}

/// The word of one entry.
__device__ inline std::uint32_t random_word(const RandomKey& key, std::uint64_t entry) {
  const std::uint64_t block = entry / random_group * random_lanes + entry % random_lanes;
  return word_of(random_block(key, block), static_cast<unsigned>(entry % random_group / random_lanes));
}

}  // namespace weir::cuda
