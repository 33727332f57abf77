#include "compressors/kernels/selection/exceedances.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

Excess excess_of(std::span<const float> magnitudes, float floor) {
  ensure(!magnitudes.empty(), "something above the threshold");
  std::array<double, 8> sums{};
  std::array<double, 8> squares{};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const double excess = static_cast<double>(magnitudes[i]) - static_cast<double>(floor);
    sums[lane] += excess;
    squares[lane] += excess * excess;
  };
  std::size_t i = 0;
  for (; i + 8 <= magnitudes.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) add(i + lane, lane);
  }
  for (std::size_t lane = 0; i < magnitudes.size(); ++i, ++lane) add(i, lane);
  double sum = 0;
  double square = 0;
  for (std::size_t lane = 0; lane < 8; ++lane) {
    sum += sums[lane];
    square += squares[lane];
  }
  const auto count = static_cast<double>(magnitudes.size());
  const double mean = sum / count;
  return {mean, std::max(square / count - mean * mean, 0.0)};
}

double mean_log(std::span<const float> magnitudes) {
  ensure(!magnitudes.empty(), "the logarithm of something");
  constexpr std::size_t group = 6;  // the product of this many floats is a normal double
  double sum = 0;
  for (std::size_t start = 0; start < magnitudes.size(); start += group) {
    double product = 1;
    for (const float it : magnitudes.subspan(start, std::min(group, magnitudes.size() - start))) product *= it;
    sum += std::log(product);
  }
  return sum / static_cast<double>(magnitudes.size());
}

std::size_t keep_above(float floor, std::span<float> magnitudes) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const float it = magnitudes[i];
    magnitudes[kept] = it;
    kept += it > floor;
  }
  return kept;
}

std::size_t count_above(float floor, std::span<const float> magnitudes) {
  std::size_t count = 0;
  for (const float it : magnitudes) count += it > floor;
  return count;
}

namespace {

[[gnu::always_inline]] inline float sum_loop(const float* values, std::size_t count) {
  std::array<float, 16> sums{};
  std::array<std::uint32_t, 16> bad{};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const std::uint32_t size = magnitude(values[i]);
    bad[lane] |= size >= magnitude_infinite;
    sums[lane] += std::bit_cast<float>(size);
  };
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t lane = 0; lane < 16; ++lane) add(i + lane, lane);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) add(i, lane);
  float sum = 0;
  std::uint32_t any = 0;
  for (std::size_t lane = 0; lane < 16; ++lane) {
    sum += sums[lane];
    any |= bad[lane];
  }
  constexpr float most = std::numeric_limits<float>::max();
  return any != 0 ? std::numeric_limits<float>::infinity() : sum < most ? sum : most;
}

float sum_portable(const float* values, std::size_t count) { return sum_loop(values, count); }
#if defined(__x86_64__)
WEIR_AVX2 float sum_avx2(const float* values, std::size_t count) { return sum_loop(values, count); }
#endif

}  // namespace

float sum_of_magnitudes(std::span<const float> values) {
#if defined(__x86_64__)
  if (has_avx2()) return sum_avx2(values.data(), values.size());
#endif
  return sum_portable(values.data(), values.size());
}

}  // namespace weir::compressors
