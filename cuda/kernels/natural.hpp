#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/code.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of natural compression's loops (compressors/kernels/quantization/quantize.hpp) and of Natural::write() and
// Natural::read_add() around them: the window (1 byte), then a code for each entry. All pointers are to the device's
// memory; codes may lie at any address.

/// What write_natural() keeps between its kernels.
struct NaturalWindow {
  std::uint32_t sample = 0;   ///< the largest magnitude among the first entries
  std::uint32_t largest = 0;  ///< among all
  std::uint32_t high = 0;     ///< the bits of all exponent fields: one above the window shows here
};

/// Of a tensor, what write_natural() reads and writes.
struct NaturalToWrite {
  const float* values;
  std::uint64_t n;
  RandomKey key;
  NaturalWindow* window;  ///< scratch
  std::byte* code;
  Report* report;
};

/// Twin of Natural::write(), of several tensors that have entries. Per entry: 4 bytes read, 1 written; twice as many if
/// a value is above the window that the first 4096 entries suggest. Where a value is NaN or infinite, `report->largest`
/// says so and the code means nothing.
Result<void> write_natural(std::span<const NaturalToWrite> tensors, StreamHandle stream);

/// Twin of Natural::read_add(), for several tensors. Per entry: 5 bytes read, 4 written.
Result<void> add_natural(std::span<const CodeToAdd> tensors, StreamHandle stream);

}  // namespace weir::cuda
