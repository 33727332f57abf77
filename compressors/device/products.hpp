#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"

namespace weir::compressors::device {

// The products of transforms/matrix.hpp of contiguous float32 matrices on a device, in the calling thread's current
// stream (device.hpp): with the bits of those.

/// The factor is brought up, and the result comes down, for which they wait.
Result<void> multiply(const at::Tensor& matrix, MatrixShape shape, std::span<const float> right, std::size_t rank,
                      std::vector<float>& left);
Result<void> multiply_transposed(const at::Tensor& matrix, MatrixShape shape, std::span<const float> left,
                                 std::size_t rank, std::vector<float>& right);

/// Brings both factors up.
Result<void> add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank,
                                MatrixShape shape, float weight, at::Tensor& sum);

}  // namespace weir::compressors::device
