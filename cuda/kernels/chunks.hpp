#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// A tensor of n entries in chunks of `length`, the last of which may be shorter.
struct Chunks {
  constexpr std::uint64_t count() const { return (n + length - 1) / length; }

  std::uint64_t n = 0;
  std::uint64_t length = 1;
};

/// Twin of sum_of_magnitudes() (compressors/kernels/selection/exceedances.hpp) for each chunk: sums of every sixteenth
/// magnitude, which are added in their order. Per entry: 4 bytes read; per chunk, 4 written.
Result<void> sum_magnitudes(const float* values, const Chunks& chunks, float* sums, StreamHandle stream);

/// Writes the entries of the chosen chunks, whose numbers ascend, one chunk after the other to `to`, which may have any
/// alignment. Raises report->largest to their magnitudes. Per entry of a chosen chunk: 4 bytes read, 4 written.
Result<void> take_chunks(const float* values, const Chunks& chunks, const std::uint32_t* chosen, std::uint64_t count,
                         std::byte* to, Report* report, StreamHandle stream);

}  // namespace weir::cuda
