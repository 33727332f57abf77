#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace weir::training {

// Norms for steps that depend on them. Additions are in a fixed order, so that ranks whose machines have other numbers
// of cores, other vector units or GPUs get the same bits. The results lie beside the tensors: where these are on a
// device that weir has kernels for (compressors/device/device.hpp), nothing waits for it.

/// The sum of the squares of the entries of each tensor, float32 and all on one device, of which there is one or more:
/// one row of float64.
at::Tensor sums_of_squares(std::span<const at::Tensor> tensors);

/// The sum of a row of numbers, of which there is one or more, as a tensor without extents. The second half is added to
/// the first, entry by entry, until one number is left.
at::Tensor sum_by_halves(at::Tensor row);

}  // namespace weir::training
