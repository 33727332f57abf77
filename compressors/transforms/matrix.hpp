#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"

namespace weir::compressors {

/// The shape of a tensor of these sizes as the matrix (dim 0, all others); one of fewer than two dimensions is a single
/// row.
MatrixShape matrix_shape(at::IntArrayRef sizes);

// The products of kernels/linear_algebra/low_rank.hpp for a whole matrix: a contiguous float32 tensor. On several
// threads, with the same bits for any number of them, or on a device, with these bits, too (device/products.hpp). Fail
// with: internal (on a device).

/// left = the matrix times `right`: `rank` columns, each as long as the matrix has rows.
Result<void> multiply(const at::Tensor& matrix, MatrixShape shape, std::span<const float> right, std::size_t rank,
                      std::vector<float>& left);

/// right = the transposed matrix times `left`: `rank` columns, each as long as the matrix has columns.
Result<void> multiply_transposed(const at::Tensor& matrix, MatrixShape shape, std::span<const float> left,
                                 std::size_t rank, std::vector<float>& right);

/// sum += weight * the sum of the outer products of `rank` columns.
Result<void> add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank,
                                MatrixShape shape, float weight, at::Tensor& sum);

}  // namespace weir::compressors
