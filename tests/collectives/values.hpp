#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/half.hpp"
#include "collectives/collective.hpp"

namespace weir::collectives::testing {

// What ranks exchange in these tests.

/// Of rank `rank`, the same in every run. Kept, because drawing them takes longer than most of what is done with them.
/// Called by the test's own thread only.
inline const std::vector<float>& noise(std::uint32_t rank, std::size_t count) {
  static std::map<std::pair<std::uint32_t, std::size_t>, std::vector<float>> drawn;
  const auto [place, is_new] = drawn.try_emplace({rank, count}, count);
  if (is_new) {
    std::mt19937 random(rank * 977 + static_cast<std::uint32_t>(count));
    std::normal_distribution<float> normal;
    for (float& v : place->second) v = normal(random);
  }
  return place->second;
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

/// noise() of each rank, in the format of `Number`.
template <class Number>
std::vector<std::vector<Number>> noise_of_ranks(std::uint32_t ranks, std::size_t count) {
  std::vector<std::vector<Number>> values(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    values[rank].reserve(count);
    for (const float value : noise(rank, count)) values[rank].push_back(from(value, Number()));
  }
  return values;
}

/// Expects `results` to be what `op` makes of the elements from `first` on that the ranks had before.
template <class Number>
void expect_each_combined(std::span<const Number> results, const std::vector<std::vector<Number>>& before,
                          std::size_t first, ReduceOp op, double tolerance) {
  std::vector<double> of_element(before.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t rank = 0; rank < before.size(); ++rank) of_element[rank] = number(before[rank][first + i]);
    ASSERT_NEAR(number(results[i]), combined(op, of_element), tolerance)
        << "element " << first + i << " of " << before[0].size() << ", " << before.size() << " ranks";
  }
}

/// Expects all ranks to have the same bits.
template <class Number>
void expect_same_bits(const std::vector<std::vector<Number>>& values) {
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    ASSERT_EQ(values[rank].size(), values[0].size());
    if (values[0].empty()) continue;
    ASSERT_EQ(std::memcmp(values[rank].data(), values[0].data(), values[0].size() * sizeof(Number)), 0)
        << "rank " << rank << " of " << values.size() << " differs for " << values[0].size() << " elements";
  }
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
