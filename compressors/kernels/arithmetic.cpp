#include "compressors/kernels/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

[[gnu::always_inline]] inline bool all_finite_loop(const float* values, std::size_t count) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) bad |= magnitude(values[i]) >= magnitude_infinite;
  return bad == 0;
}

bool all_finite_portable(const float* values, std::size_t count) { return all_finite_loop(values, count); }
#if defined(__x86_64__)
WEIR_AVX2 bool all_finite_avx2(const float* values, std::size_t count) { return all_finite_loop(values, count); }
#endif

[[gnu::always_inline]] inline bool copy_scaled_loop(float factor, const float* __restrict from, float* __restrict to,
                                                    std::size_t count) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bad |= magnitude(from[i]) >= magnitude_infinite;
    to[i] = factor * from[i];
  }
  return bad == 0;
}

bool copy_scaled_portable(float factor, const float* from, float* to, std::size_t count) {
  return copy_scaled_loop(factor, from, to, count);
}
#if defined(__x86_64__)
WEIR_AVX2 bool copy_scaled_avx2(float factor, const float* from, float* to, std::size_t count) {
  return copy_scaled_loop(factor, from, to, count);
}
#endif

struct ResidualLoop {
  float beta;
  float gamma;
  const float* __restrict gradient;
  float* __restrict residual;

  [[gnu::always_inline]] float operator()(std::size_t i) const {
    return residual[i] = beta * residual[i] + gamma * gradient[i];
  }
};

template <bool nesterov>
struct MomentumLoop {
  float mu;
  float scale;
  const float* __restrict gradient;
  float* __restrict momentum;
  float* __restrict velocity;

  [[gnu::always_inline]] float operator()(std::size_t i) const {
    const float scaled = scale * gradient[i];
    momentum[i] = nesterov ? mu * (momentum[i] + scaled) : mu * momentum[i] + scaled;
    return velocity[i] += nesterov ? momentum[i] + scaled : momentum[i];
  }
};

/// Calls write(i), which gives entry i of a tensor its value and returns it, for all i. Notes the peaks.
template <class Write>
[[gnu::always_inline]] inline void note_peaks_loop(const Write& write, std::size_t count, float* __restrict peaks) {
  for (std::size_t start = 0; start < count; start += peak_block) {
    std::uint32_t peak = 0;
    if (start + peak_block <= count) {
      for (std::size_t i = start; i < start + peak_block; ++i) peak = std::max(peak, magnitude(write(i)));
    } else {
      for (std::size_t i = start; i < count; ++i) peak = std::max(peak, magnitude(write(i)));
    }
    *peaks++ = std::bit_cast<float>(peak);
  }
}

#if defined(__x86_64__)
template <class Write>
WEIR_AVX2 void note_peaks_avx2(const Write& write, std::size_t count, float* peaks) {
  note_peaks_loop(write, count, peaks);
}
#endif

template <class Write>
void note_peaks(const Write& write, std::size_t count, std::span<float> peaks) {
  ensure(peaks.size() == peaks_of(count), "a peak for each block");
#if defined(__x86_64__)
  if (has_avx2()) return note_peaks_avx2(write, count, peaks.data());
#endif
  note_peaks_loop(write, count, peaks.data());
}

/// Entry i is added to lane i % 8, and the lanes in their order.
double squares_of_block(std::span<const float> values) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (std::size_t j = 0; j < lanes.size(); ++j) lanes[j] += static_cast<double>(values[i + j]) * values[i + j];
  }
  for (std::size_t j = 0; i < values.size(); ++i, ++j) lanes[j] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

bool copy_scaled(float factor, std::span<const float> from, std::span<float> to) {
  ensure(from.size() == to.size(), "as many floats on both sides");
#if defined(__x86_64__)
  if (has_avx2()) return copy_scaled_avx2(factor, from.data(), to.data(), to.size());
#endif
  return copy_scaled_portable(factor, from.data(), to.data(), to.size());
}

bool all_finite(std::span<const float> values) {
#if defined(__x86_64__)
  if (has_avx2()) return all_finite_avx2(values.data(), values.size());
#endif
  return all_finite_portable(values.data(), values.size());
}

void add_scaled(float weight, BytesView from, std::span<float> to) {
  ensure(from.size() == to.size_bytes(), "as many floats on both sides");
  const std::byte* __restrict source = from.data();
  float* __restrict target = to.data();
  const std::size_t n = to.size();
  for (std::size_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, source + i * sizeof value, sizeof value);
    target[i] += weight * value;
  }
}

void accumulate_scaled(float weight, std::span<const float> from, std::span<float> to) {
  ensure(from.size() == to.size(), "as many floats on both sides");
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * from[i];
}

void accumulate_residual(float beta, float gamma, std::span<const float> gradient, std::span<float> residual,
                         std::span<float> peaks) {
  ensure(gradient.size() == residual.size(), "a residual of the gradient's size");
  const ResidualLoop loop{beta, gamma, gradient.data(), residual.data()};
  if (peaks.empty()) {
    for (std::size_t i = 0; i < residual.size(); ++i) (void)loop(i);
  } else {
    note_peaks(loop, residual.size(), peaks);
  }
}

void subtract(std::span<const float> a, std::span<const float> b, std::span<float> difference) {
  ensure(a.size() == difference.size() && b.size() == difference.size(), "differences of as many floats");
  const float* __restrict from = a.data();
  const float* __restrict less = b.data();
  float* __restrict out = difference.data();
  const std::size_t n = difference.size();
  for (std::size_t i = 0; i < n; ++i) out[i] = from[i] - less[i];
}

void accumulate_momentum(const MomentumStep& step, std::span<const float> gradient, std::span<float> momentum,
                         std::span<float> velocity, std::span<float> peaks) {
  ensure(gradient.size() == momentum.size() && gradient.size() == velocity.size(), "momentum of the gradient's size");
  if (step.nesterov) {
    note_peaks(MomentumLoop<true>{step.mu, step.scale, gradient.data(), momentum.data(), velocity.data()},
               gradient.size(), peaks);
  } else {
    note_peaks(MomentumLoop<false>{step.mu, step.scale, gradient.data(), momentum.data(), velocity.data()},
               gradient.size(), peaks);
  }
}

void apply_momentum(const MomentumStep& step, std::span<float> gradient, std::span<float> momentum) {
  ensure(gradient.size() == momentum.size(), "momentum of the gradient's size");
  float* __restrict g = gradient.data();
  float* __restrict m = momentum.data();
  const std::size_t n = gradient.size();
  for (std::size_t i = 0; i < n; ++i) {
    const float scaled = step.scale * g[i];
    m[i] = step.nesterov ? step.mu * (m[i] + scaled) : step.mu * m[i] + scaled;
    g[i] = step.nesterov ? m[i] + scaled : m[i];
  }
}

// Blocks and runs of blocks, so that a device sums them side by side in the same order (cuda/kernels/arithmetic.cu).
double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t block = 4096;
  constexpr std::size_t run = 64 * block;
  double sum = 0;
  double sum_of_run = 0;
  for (std::size_t start = 0; start < values.size(); start += block) {
    if (start % run == 0) {
      sum += sum_of_run;
      sum_of_run = 0;
    }
    sum_of_run += squares_of_block(values.subspan(start, std::min(block, values.size() - start)));
  }
  return sum + sum_of_run;
}

}  // namespace weir::compressors
