#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::compressors {

/// How many elements collect_above() may write past the last one it reports.
inline constexpr std::size_t collect_slack = 32;

/// Writes the position and the value of every entry of x[0, n) whose magnitude() is at least `least` (`least` >= 1),
/// and returns how many there are. Both outputs must have room for n + collect_slack elements.
std::size_t collect_above(const float* x, std::size_t n, std::uint32_t least, std::uint32_t* positions, float* values);

}  // namespace weir::compressors
