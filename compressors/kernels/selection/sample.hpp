#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// Of a tensor: the values first, first + stride, ..., `count` of them.
struct StridedSample {
  std::size_t first = 0;
  std::size_t stride = 1;
  std::size_t count = 0;
};

/// The magnitude() of the `rank`-th largest value of a sample, 1 <= rank <= count. If there are peaks, it reads only
/// the values whose blocks may reach that, for which it is the same.
std::uint32_t sampled_cut(std::span<const float> values, Peaks peaks, const StridedSample& sample, std::size_t rank);

}  // namespace weir::compressors
