#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// Element-wise loops that the compiler vectorizes. Everything below this folder is compiled with optimization in every
// build type, and without fused multiply-add, so that every processor computes the same bits.

/// True if no value is NaN or infinite.
bool all_finite(std::span<const float> values);

/// to = factor * from. Returns whether all values of `from` are finite.
bool copy_scaled(float factor, std::span<const float> from, std::span<float> to);

/// to += weight * from. `from` holds the bytes of to.size() floats and need not be aligned.
void add_scaled(float weight, BytesView from, std::span<float> to);

/// to += weight * from, which may be the same values.
void accumulate_scaled(float weight, std::span<const float> from, std::span<float> to);

/// residual = beta * residual + gamma * gradient. If `peaks` is not empty, it receives the Peaks
/// (selection/selection.hpp) of the residual.
void accumulate_residual(float beta, float gamma, std::span<const float> gradient, std::span<float> residual,
                         std::span<float> peaks = {});

/// difference = a - b.
void subtract(std::span<const float> a, std::span<const float> b, std::span<float> difference);

/// With g = scale * gradient: m = mu * m + g; v += m. The nesterov form: m = mu * (m + g); v += m + g. `peaks` receives
/// the Peaks (selection/selection.hpp) of v.
struct MomentumStep {
  float mu = 0;
  float scale = 1;
  bool nesterov = false;
};
void accumulate_momentum(const MomentumStep& step, std::span<const float> gradient, std::span<float> momentum,
                         std::span<float> velocity, std::span<float> peaks);

/// Momentum for a gradient that the optimizer applies in the same step, without a velocity: `gradient` becomes m, or in
/// the nesterov form m + g.
void apply_momentum(const MomentumStep& step, std::span<float> gradient, std::span<float> momentum);

/// The sum of squares in double precision. The order of the additions is fixed, so every machine gets the same bits.
double sum_of_squares(std::span<const float> values);

}  // namespace weir::compressors
