#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/half.hpp"
#include "collectives/collective.hpp"

namespace weir::collectives::testing {

// What ranks exchange in these tests.

/// Of rank `rank`, the same in every run.
inline std::vector<float> noise(std::uint32_t rank, std::size_t count) {
  std::mt19937 random(rank * 977 + static_cast<std::uint32_t>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

template <class Number>
Buffer buffer_of(std::vector<Number>& values, Element element) {
  return {std::as_writable_bytes(std::span(values)), element};
}

/// A float in the format of the second argument.
inline float from(float value, float) { return value; }
inline Half from(float value, Half) { return to_half(value); }
inline BFloat16 from(float value, BFloat16) { return to_bfloat16(value); }
inline float number(float value) { return value; }
inline float number(Half value) { return to_float(value); }
inline float number(BFloat16 value) { return to_float(value); }

/// What `op` makes of one element's values.
inline double combined(ReduceOp op, const std::vector<double>& values) {
  double sum = 0;
  double votes = 0;
  for (const double value : values) {
    sum += value;
    votes += (value > 0) - (value < 0);
  }
  switch (op) {
    case ReduceOp::sum: return sum;
    case ReduceOp::mean: return sum / static_cast<double>(values.size());
    case ReduceOp::min: return *std::ranges::min_element(values);
    case ReduceOp::max: return *std::ranges::max_element(values);
    case ReduceOp::majority: return (votes > 0) - (votes < 0);
  }
  return NAN;
}

inline Bytes payload_of(std::uint32_t rank, std::size_t bytes) {
  return Bytes(bytes, static_cast<std::byte>(rank + 1));
}

inline void expect_success(const std::vector<Result<void>>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    ASSERT_TRUE(results[rank]) << "rank " << rank << ": " << results[rank].error().message();
  }
}

}  // namespace weir::collectives::testing
