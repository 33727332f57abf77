#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

// The inner loops that decide speed. Compiled optimized in every build type. No loop uses fused multiply-add,
// so that every processor computes the same bits.

/// collect() writes up to this many entries behind its limit before it gives up.
inline constexpr std::size_t collect_slack = 32;

/// Loops that exist once per instruction set, because compilers do not find the fast form by themselves.
struct Kernels {
  const char* name;

  /// Writes position and value of each of the n entries whose magnitude is `least` (at least 1) or more.
  /// Gives their number, or some number above `limit` as soon as there are more. Both outputs hold limit +
  /// collect_slack.
  std::size_t (*collect)(const float* x, std::size_t n, std::uint32_t least, std::size_t limit,
                         std::uint32_t* positions, float* values);
};

extern const Kernels portable_kernels;

/// The AVX2 set, or null where this build or this processor has none.
const Kernels* avx2_kernels();

/// The fastest set of this processor.
const Kernels& kernels();

/// No value is NaN or infinite.
bool all_finite(std::span<const float> values);

/// to += weight * from, where `from` are the bytes of as many floats, at any address.
void add_scaled(float weight, BytesView from, std::span<float> to);

/// residual = beta * residual + gamma * gradient.
void accumulate_residual(float beta, float gamma, std::span<const float> gradient, std::span<float> residual);

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
