#pragma once

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/code.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of QSGD's loops (compressors/kernels/quantization/quantize.hpp) and of what Qsgd does around them: buckets of
// `bucket` entries, a multiple of 64 up to 2^20, each the norm (4 bytes), the levels of `bits` bits (1 to 8), and the
// signs. They write and read what follows the head of the code (bits and bucket), which may lie at any address. Eight
// lanes take a bucket, in the CPU's order of additions: the time of a bucket is a chain of bucket / 8 additions, which
// hides behind others' as long as the tensor has thousands of buckets.

/// Twin of Qsgd::write(), of several tensors. Per entry: 4 bytes read twice, the second time from the cache,
/// (bits + 1) / 8 written. Where a value is NaN or infinite, `report->largest` says so and the code means nothing.
Result<void> write_levels(std::span<const CodeToWrite> tensors, unsigned bits, std::uint64_t bucket,
                          StreamHandle stream);

/// Twin of Qsgd::read_add(), for several tensors. Per entry: 4 + (bits + 1) / 8 bytes read, 4 written.
Result<void> add_levels(std::span<const CodeToAdd> tensors, unsigned bits, std::uint64_t bucket, StreamHandle stream);

}  // namespace weir::cuda
