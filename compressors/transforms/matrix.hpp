#pragma once

#include <ATen/core/Tensor.h>

#include "compressors/kernels/low_rank.hpp"

namespace weir::compressors {

/// A tensor as the matrix (dim 0, all others); one of fewer than two dimensions as a single row.
inline MatrixShape matrix_shape(const at::Tensor& tensor) {
  const auto entries = static_cast<std::size_t>(tensor.numel());
  const std::size_t rows = tensor.dim() > 1 ? static_cast<std::size_t>(tensor.size(0)) : 1;
  return {rows, rows == 0 ? 0 : entries / rows};
}

}  // namespace weir::compressors
