#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/kernels/report.hpp"
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

/// Twin of Natural::write(). `window` is scratch. Per entry: 4 bytes read, 1 written; twice as many if a value is above
/// the window that the first 4096 entries suggest. Where a value is NaN or infinite, `report->largest` says so and the
/// code means nothing.
Result<void> write_natural(const float* values, std::uint64_t n, const RandomKey& key, NaturalWindow* window,
                           std::byte* code, Report* report, StreamHandle stream);

/// Twin of Natural::read_add(). Per entry: 5 bytes read, 4 written.
Result<void> add_natural(const std::byte* code, std::uint64_t n, float weight, float* sum, StreamHandle stream);

}  // namespace weir::cuda
