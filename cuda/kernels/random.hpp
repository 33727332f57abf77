#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// Identifies a stream of random words, as the twin of the same name does (compressors/kernels/random/random.hpp).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< below 2^48
  std::uint32_t tensor = 0;
  std::uint16_t stream = 0;
};

/// The words of the entries `begin` (a multiple of 64), `begin` + 1, ...; the twin of fill_random(). Kernels that round
/// at random make the same words in registers (random.cuh). Per entry: 4 bytes written.
Result<void> fill_random(const RandomKey& key, std::uint64_t begin, std::uint32_t* out, std::uint64_t n,
                         StreamHandle stream);

}  // namespace weir::cuda
