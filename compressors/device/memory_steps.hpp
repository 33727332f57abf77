#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "cuda/kernels/bins.hpp"

namespace weir::compressors::device {

// What memories do with contiguous float32 tensors on a device, with the bits of the functions of the same names
// (kernels/arithmetic.hpp, selection.hpp), in the calling thread's current stream (device.hpp). Nothing waits but
// sum_of_squares(). Instead of peaks, `bins` counts the magnitudes of what is written: a tensor that is made, or used
// again; null: nothing is counted.

Result<void> accumulate_residual(float beta, float gamma, const at::Tensor& gradient, at::Tensor& residual,
                                 at::Tensor* bins);
Result<void> accumulate_momentum(const MomentumStep& step, const at::Tensor& gradient, at::Tensor& momentum,
                                 at::Tensor& velocity, at::Tensor* bins);
Result<void> apply_momentum(const MomentumStep& step, at::Tensor& gradient, at::Tensor& momentum);
Result<double> sum_of_squares(const at::Tensor& values);
Result<void> subtract(const at::Tensor& a, const at::Tensor& b, at::Tensor& difference);

/// to += weight * from. Brings up `from`, floats of any alignment in the host's memory.
Result<void> add_scaled(float weight, BytesView from, at::Tensor& to);

/// The counts that a `bins` has; null if it has none.
const cuda::Bins* counts_of(const at::Tensor& bins);

/// Brings the entries up; their positions are distinct.
Result<void> add_selection(float weight, const Selection& selection, at::Tensor& to);
/// The same of several selections, one after the other. Returns where their entries are, beside `to`: positions as
/// clear_selection() takes them.
Result<at::Tensor> add_selections(float weight, std::span<const Selection* const> selections, at::Tensor& to);
/// Sets the entries at these positions to zero.
Result<void> clear_selection(std::span<const std::uint32_t> positions, at::Tensor& to);
Result<void> clear_selection(const at::Tensor& positions, at::Tensor& to);

}  // namespace weir::compressors::device
