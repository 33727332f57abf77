#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of what HostValues (compressors/values.cpp) does for drawing entries with probabilities proportional to their
// magnitudes. All pointers are to the device's memory.

/// As the twin of the same name (compressors/kernels/random/draw.hpp).
struct MagnitudeSums {
  double sum = 0;
  std::uint32_t largest = 0;
  std::uint32_t nonzeros = 0;
};

/// How many MagnitudeSums magnitude_sums() needs beside its result.
constexpr std::uint64_t magnitude_sum_parts(std::uint64_t n) { return (n + 16383) / 16384; }

/// Twin of HostValues::magnitude_sums(): `*sums` is set. `parts` is scratch, magnitude_sum_parts(n) of them. Per entry:
/// 4 bytes read.
Result<void> magnitude_sums(const float* values, std::uint64_t n, std::uint32_t below, MagnitudeSums* parts,
                            MagnitudeSums* sums, StreamHandle stream);

/// Twin of HostValues::draw(), of all entries: to what each is decoded, or zero if it is not drawn. Per entry: 4 bytes
/// read, 4 written.
Result<void> draw_by_magnitude(const float* values, std::uint64_t n, const RandomKey& key, float level, float* drawn,
                               StreamHandle stream);

}  // namespace weir::cuda
