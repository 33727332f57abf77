#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace weir::training {

/// The sum of squares, in double and always in the same order: ranks whose machines have other numbers of cores or
/// other vector units get the same bits, which a step that depends on a norm needs.
inline double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t lanes = 8;  // sums that do not wait for each other
  std::array<double, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += double{values[i + lane]} * double{values[i + lane]};
  }
  for (; i < values.size(); ++i) sums[0] += double{values[i]} * double{values[i]};
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace weir::training
