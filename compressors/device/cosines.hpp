#pragma once

#include <ATen/core/Tensor.h>

#include "base/result.hpp"
#include "compressors/transforms/dct.hpp"
#include "cuda/kernels/block_grid.hpp"

namespace weir::compressors::device {

/// A grid as kernels take it.
inline cuda::BlockGrid of_kernels(const BlockGrid& grid) {
  return {grid.shape().rows, grid.shape().columns, grid.down(), grid.across()};
}

/// The cosine coefficients of a contiguous float32 matrix on a device, beside it and where the grid puts them, with the
/// bits of transform_blocks(): put into the calling thread's current stream (device.hpp), for which it does not wait.
/// Those of a block with an entry that is NaN or infinite are all infinite.
Result<at::Tensor> transform(const at::Tensor& matrix, const BlockGrid& grid);

/// Twin of add_inverse(), for a sum on a device: brings up the coefficients, whose positions ascend within the grid.
/// Does not wait either.
Result<void> add_inverse(const BlockGrid& grid, const Selection& coefficients, float weight, at::Tensor& sum);

}  // namespace weir::compressors::device
