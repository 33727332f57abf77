#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of the products of compressors/kernels/linear_algebra/low_rank.hpp, of whole matrices: row-major, with factors
// of `rank` vectors one after the other. All pointers are to the device's memory. The bits are the CPU's, but that a
// NaN may be another NaN: a result that is not finite tells of a row or a column that is not.

/// As the twin of the same name.
struct MatrixShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Twin of multiply(). Sixteen lanes take a row, or four if there are many. Per entry of the matrix: 4 bytes read, for
/// each four vectors.
Result<void> multiply(const float* matrix, const MatrixShape& shape, const float* right, std::uint64_t rank,
                      float* left, StreamHandle stream);

/// Twin of multiply_transposed(). A thread block takes 32 columns, of which a lane adds up the entries of one, because
/// the twin does from the first to the last. Per entry of the matrix: 4 bytes read, for each eight vectors.
Result<void> multiply_transposed(const float* matrix, const MatrixShape& shape, const float* left, std::uint64_t rank,
                                 float* right, StreamHandle stream);

/// Twin of add_outer_products(). A warp takes four rows at a time, so that an entry of a right vector that is loaded
/// once serves all of these. Per entry of the sum: 4 bytes read, 4 written.
Result<void> add_outer_products(const float* left, const float* right, std::uint64_t rank, const MatrixShape& shape,
                                float weight, float* sum, StreamHandle stream);

}  // namespace weir::cuda
