#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "base/result.hpp"

namespace weir::compressors::device {

// What is added up where it lies, in the calling thread's current stream (device.hpp), with the bits that the processor
// would have. What returns a bool waits for that stream.

// What ranks add up: the numbers of tensors in a device's memory, float32 or, if that is the type of the tensor that is
// summed, 16 bits each.

/// Fills the first entries of `to` with a share of each entry of the values, which are contiguous and float32, one
/// after the other. If `copy` is defined, all of `to` is then brought down to that, in the host's memory. False if a
/// value is NaN or infinite.
Result<bool> write_shares(std::span<const at::Tensor> values, float share, const at::Tensor& to,
                          const at::Tensor& copy);

/// Sets `to`, float32, to the numbers of `sum`, 16 bits each. False if one of them is NaN or infinite.
Result<bool> widen(const at::Tensor& sum, const at::Tensor& to);

/// The sums of the squares of the entries of each tensor, contiguous and float32, of which there is one or more: a
/// float64 for each, beside them, with the bits of sum_of_squares() (kernels/arithmetic.hpp). Waits for nothing. The
/// calling thread's current stream may also be LibTorch's default one.
Result<at::Tensor> sums_of_squares(std::span<const at::Tensor> tensors);

/// What CUDA calls the calling thread's current stream on the device of `tensor`.
void* current_cuda_stream(const at::Tensor& tensor);

}  // namespace weir::compressors::device
