#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::compressors {

/// What collect_above() may write beyond what it finds.
inline constexpr std::size_t collect_slack = 32;

/// Writes position and value of each of the n entries whose magnitude is `least` (at least 1) or more, and gives their
/// number. Both outputs hold n + collect_slack.
std::size_t collect_above(const float* x, std::size_t n, std::uint32_t least, std::uint32_t* positions, float* values);

}  // namespace weir::compressors
