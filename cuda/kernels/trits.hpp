#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of the ternary codes (compressors/kernels/quantization/quantize.hpp) and of what TernGrad does around them: the
// scale (4 bytes), then blocks of 320 entries in 64 bytes, the last of which may be shorter. All pointers are to the
// device's memory; codes may lie at any address.

/// Twin of Size: the largest magnitude and the sum of squares.
struct Size {
  std::uint32_t magnitude = 0;
  std::uint32_t unused = 0;  ///< in the place of padding, so that what is copied to the host has been written
  double squares = 0;
};

/// How many Sizes size_of() needs beside its result.
constexpr std::uint64_t size_parts(std::uint64_t n) { return (n + 4095) / 4096; }

/// Twin of TernGrad's size of a whole tensor: `*size` is set; `parts` is scratch, size_parts(n) of them. Per entry: 4
/// bytes read.
Result<void> size_of(const float* values, std::uint64_t n, Size* parts, Size* size, StreamHandle stream);

/// At what magnitude values are clipped, and what a trit stands for.
struct TritScale {
  float limit = 0;
  float scale = 0;
};

/// Twin of TernGrad::limit_of() for a scale of this rank alone: limit and scale are the largest magnitude of n values
/// of this size, or `clip` standard deviations if that is less and `clip` is not zero. `report->largest` is raised to
/// the largest magnitude.
Result<void> limit_of(const Size* size, std::uint64_t n, double clip, TritScale* scale, Report* report,
                      StreamHandle stream);

/// Twin of TernGrad::write(), given limit and scale. Per entry: 4 bytes read, 1/5 written.
Result<void> write_trits(const float* values, std::uint64_t n, const RandomKey& key, const TritScale* scale,
                         std::byte* code, StreamHandle stream);

/// Twin of TernGrad::read_add(). Per entry: 4 1/5 bytes read, 4 written.
Result<void> add_trits(const std::byte* code, std::uint64_t n, float weight, float* sum, StreamHandle stream);

}  // namespace weir::cuda
