#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/bins.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/arithmetic.hpp. All pointers are to the device's memory, floats are aligned as floats,
// and arrays do not overlap. The bits are the CPU's, but that a NaN may be another NaN.

/// Twin of copy_scaled(), which returns `report->largest` < magnitude_infinite. Per entry: 4 bytes read, 4 written.
Result<void> copy_scaled(float factor, const float* from, float* to, std::uint64_t n, Report* report,
                         StreamHandle stream);

/// Twin of add_scaled(): `from` may have any alignment. Per entry: 8 bytes read, 4 written.
Result<void> add_scaled(float weight, const std::byte* from, float* to, std::uint64_t n, StreamHandle stream);

/// A tensor for accumulate_residual().
struct ResidualOf {
  float beta = 1;
  float gamma = 1;
  const float* gradient = nullptr;
  float* residual = nullptr;
  std::uint64_t n = 0;
  Bins* bins = nullptr;           ///< null for all tensors of a call or for none
  const float* before = nullptr;  ///< what `beta` is the share of, if not the residual as it is
};

/// Twin of accumulate_residual(), of several tensors in one launch. Instead of peaks, the residual's magnitudes are
/// counted in `bins`, if not null. Per entry: 8 bytes read, 4 written.
Result<void> accumulate_residual(std::span<const ResidualOf> tensors, StreamHandle stream);

/// Twin of subtract(). Per entry: 8 bytes read, 4 written.
Result<void> subtract(const float* a, const float* b, float* difference, std::uint64_t n, StreamHandle stream);

/// As the twin of the same name.
struct MomentumStep {
  float mu = 0;
  float scale = 1;
  bool nesterov = false;
};

/// A tensor for accumulate_momentum().
struct MomentumOf {
  MomentumStep step;
  const float* gradient = nullptr;
  float* momentum = nullptr;
  float* velocity = nullptr;
  std::uint64_t n = 0;
  Bins* bins = nullptr;  ///< null for all tensors of a call or for none
};

/// Twin of accumulate_momentum(), of several tensors in one launch. Instead of peaks, the velocity's magnitudes are
/// counted in `bins`, if not null. Per entry: 12 bytes read, 8 written.
Result<void> accumulate_momentum(std::span<const MomentumOf> tensors, StreamHandle stream);

/// A tensor for apply_momentum().
struct MomentumAppliedTo {
  MomentumStep step;
  float* gradient = nullptr;
  float* momentum = nullptr;
  std::uint64_t n = 0;
};

/// Twin of apply_momentum(), of several tensors in one launch. Per entry: 8 bytes read, 8 written.
Result<void> apply_momentum(std::span<const MomentumAppliedTo> tensors, StreamHandle stream);

}  // namespace weir::cuda
