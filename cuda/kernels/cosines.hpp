#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/block_grid.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// What blocks are multiplied with (compressors/kernels/linear_algebra/cosines.hpp), of n points as n * n floats: down
/// row by row, across column by column. The first of each two are for the shorter sides, the second for those that are
/// longer by one, if there are such.
struct CosineTables {
  const float* down[2] = {};
  const float* across[2] = {};
};

/// Twin of transform_blocks(): writes the coefficients of all blocks to where the grid puts them. Those of a block with
/// an entry that is NaN or infinite are all infinite. A thread block takes a block. Per entry: 4 bytes read, 4 written,
/// and 64 products.
Result<void> transform_blocks(const float* matrix, const BlockGrid& grid, const CosineTables& tables,
                              float* coefficients, StreamHandle stream);

/// Some coefficients of a grid; the others are zero. Positions ascend.
struct Coefficients {
  const std::uint32_t* positions = nullptr;
  const float* values = nullptr;
  std::uint64_t count = 0;
};

/// Twin of add_inverse(): sum += weight * the inverse transform. A thread block takes a block, and leaves one without
/// coefficients as it is. Per entry of the others: 4 bytes read, 4 written, and up to 64 products.
Result<void> add_inverse(const Coefficients& coefficients, const BlockGrid& grid, const CosineTables& tables,
                         float weight, float* sum, StreamHandle stream);

}  // namespace weir::cuda
