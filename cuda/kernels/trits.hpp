#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/code.hpp"
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

/// How many Sizes find_sizes() needs beside its result.
constexpr std::uint64_t size_parts(std::uint64_t n) { return (n + 4095) / 4096; }

/// Of a tensor, what find_sizes() reads and writes.
struct SizeToFind {
  const float* values;
  std::uint64_t n;
  Size* parts;  ///< scratch, size_parts(n) of them
  Size* size;   ///< is set
};

/// Twin of TernGrad's size of a whole tensor, of several. Per entry: 4 bytes read.
Result<void> find_sizes(std::span<const SizeToFind> tensors, StreamHandle stream);

/// At what magnitude values are clipped, and what a trit stands for.
struct TritScale {
  float limit = 0;
  float scale = 0;
};

/// Of a tensor, what write_trits() reads and writes.
struct TritsToWrite {
  const float* values;
  std::uint64_t n;
  RandomKey key;
  TritScale scale;
  std::byte* code;
};

/// Twin of TernGrad::write(), of several tensors that have entries. Per entry: 4 bytes read, 1/5 written.
Result<void> write_trits(std::span<const TritsToWrite> tensors, StreamHandle stream);

/// Twin of TernGrad::read_add(), for several tensors. Per entry: 4 1/5 bytes read, 4 written.
Result<void> add_trits(std::span<const CodeToAdd> tensors, StreamHandle stream);

}  // namespace weir::cuda
