#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "compressors/kernels/low_rank.hpp"

namespace weir::compressors {

/// A tensor as the matrix (dim 0, all others); one of fewer than two dimensions as a single row.
MatrixShape matrix_shape(const at::Tensor& tensor);

// The products of kernels/low_rank.hpp of a whole matrix, on several threads, with the same bits for any number of
// them.

/// `rank` columns, each as long as the matrix has rows: the matrix times `right`.
std::vector<float> multiplied(std::span<const float> matrix, MatrixShape shape, std::span<const float> right,
                              std::size_t rank);

/// `rank` columns, each as long as the matrix has columns: the transposed matrix times `left`.
std::vector<float> multiplied_transposed(std::span<const float> matrix, MatrixShape shape, std::span<const float> left,
                                         std::size_t rank);

/// sum += weight * the outer products of `rank` columns.
void add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank, MatrixShape shape,
                        float weight, std::span<float> sum);

}  // namespace weir::compressors
