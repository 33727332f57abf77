#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// Loops over whole tensors that compilers vectorize by themselves. Like all of this folder they are compiled optimized
// in every build type, and without fused multiply-add, so that every processor computes the same bits.

/// No value is NaN or infinite.
bool all_finite(std::span<const float> values);

/// to += weight * from, where `from` are the bytes of as many floats, at any address.
void add_scaled(float weight, BytesView from, std::span<float> to);

/// residual = beta * residual + gamma * gradient.
void accumulate_residual(float beta, float gamma, std::span<const float> gradient, std::span<float> residual);

/// difference = a - b.
void subtract(std::span<const float> a, std::span<const float> b, std::span<float> difference);

/// With g = scale * gradient: m = mu * m + g; v += m. The nesterov form: m = mu * (m + g); v += m + g.
struct MomentumStep {
  float mu = 0;
  float scale = 1;
  bool nesterov = false;
};
void accumulate_momentum(const MomentumStep& step, std::span<const float> gradient, std::span<float> momentum,
                         std::span<float> velocity);

/// The same momentum for a gradient that goes to the optimizer at once: gradient becomes m, or m + g.
void apply_momentum(const MomentumStep& step, std::span<float> gradient, std::span<float> momentum);

/// The sum of squares, in double precision and in an order of its own that is the same everywhere.
double sum_of_squares(std::span<const float> values);

}  // namespace weir::compressors
