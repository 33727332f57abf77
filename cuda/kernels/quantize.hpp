#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of the scaled codes of compressors/kernels/quantization/quantize.hpp, each with what its quantizer
// (compressors/quantizers/int8.cpp, uint8.cpp) does around it, so that they write and read the whole code of a tensor
// of `channels` rows of `row` entries, fewer than 2^32 in all. All pointers are to the device's memory; codes may lie
// at any address. Where a value is NaN or infinite, `report->largest` says so and the code means nothing.

/// The minimum and the maximum of a row and zero, as integers of the floats' order. Twin of Extremes.
struct RowExtremes {
  std::int32_t least = 0;
  std::int32_t most = 0;
};

/// Of a tensor, what write_int8() and write_uint8() read and write.
struct RowsToWrite {
  const float* values;
  std::uint64_t channels;
  std::uint64_t row;
  RowExtremes* extremes;  ///< of each channel; none have been found yet
  std::byte* code;
  Report* report;
};

/// Twin of Int8::write(), of several tensors that have entries: channels scales (4 bytes each), then codes. Per entry:
/// 8 bytes read (the second time from the cache where the tensor fits into it), 1 written.
Result<void> write_int8(std::span<const RowsToWrite> tensors, StreamHandle stream);

/// A code of write_int8() or write_uint8() that is added.
struct RowsToAdd {
  const std::byte* code;
  std::uint64_t channels;
  std::uint64_t row;
  float weight;
  float* sum;
};

/// Twin of Int8::read_add(), for several tensors. Per entry: 5 bytes read, 4 written.
Result<void> add_int8(std::span<const RowsToAdd> tensors, StreamHandle stream);

/// Twin of Uint8::write(): channels scales, channels zeros (1 byte each), then codes. Else as write_int8().
Result<void> write_uint8(std::span<const RowsToWrite> tensors, StreamHandle stream);

/// Twin of Uint8::read_add(). Else as add_int8().
Result<void> add_uint8(std::span<const RowsToAdd> tensors, StreamHandle stream);

}  // namespace weir::cuda
