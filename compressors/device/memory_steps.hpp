#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "cuda/kernels/bins.hpp"

namespace weir::compressors::device {

// What memories do with contiguous float32 tensors on a device, with the bits of the functions of the same names
// (kernels/arithmetic.hpp, selection.hpp), in the calling thread's current stream (device.hpp). Nothing waits but
// sum_of_squares(). What takes several tensors takes them in as few launches as one.

/// Instead of peaks, `bins`, if not null, becomes the counts of the magnitudes of what is written (counts_of()). It is
/// null for all tensors of a call or for none.
struct ResidualOf {
  float beta = 1;
  float gamma = 1;
  at::Tensor gradient;
  at::Tensor residual;
  at::Tensor* bins = nullptr;
  at::Tensor before = {};  ///< what `beta` is the share of, if not the residual as it is
};
Result<void> accumulate_residual(std::span<const ResidualOf> tensors);
Result<void> accumulate_residual(float beta, float gamma, const at::Tensor& gradient, const at::Tensor& residual);

/// `bins`: as of ResidualOf.
struct MomentumOf {
  MomentumStep step;
  at::Tensor gradient;
  at::Tensor momentum;
  at::Tensor velocity;
  at::Tensor* bins = nullptr;
};
Result<void> accumulate_momentum(std::span<const MomentumOf> tensors);

struct MomentumAppliedTo {
  MomentumStep step;
  at::Tensor gradient;
  at::Tensor momentum;
};
Result<void> apply_momentum(std::span<const MomentumAppliedTo> tensors);

Result<double> sum_of_squares(const at::Tensor& values);
Result<void> subtract(const at::Tensor& a, const at::Tensor& b, at::Tensor& difference);

/// to += weight * from. Brings up `from`, floats of any alignment in the host's memory.
Result<void> add_scaled(float weight, BytesView from, at::Tensor& to);

/// The counts that a `bins` has; null if it has none.
const cuda::Bins* counts_of(const at::Tensor& bins);

/// Entries that go to a tensor on a device: those of selections, whose positions are distinct.
struct EntriesFor {
  std::vector<const Selection*> selections;
  at::Tensor to;
};

/// Adds `weight` times the entries of each selection to the tensors, those for a tensor one after the other. All are
/// brought up together. Returns where each tensor's entries are, beside it: positions as clear_entries() takes them.
Result<std::vector<at::Tensor>> add_entries(float weight, std::span<const EntriesFor> entries);
Result<void> add_selection(float weight, const Selection& selection, at::Tensor& to);

/// Sets the entries at these positions to zero.
struct PositionsIn {
  at::Tensor positions;
  at::Tensor to;
};
Result<void> clear_entries(std::span<const PositionsIn> entries);

}  // namespace weir::compressors::device
