#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::compressors {

/// collect_above() writes up to this many entries behind its limit before it gives up.
inline constexpr std::size_t collect_slack = 32;

/// Writes position and value of each of the n entries whose magnitude is `least` (at least 1) or more. Gives their
/// number, or some number above `limit` as soon as there are more. Both outputs hold limit + collect_slack.
std::size_t collect_above(const float* x, std::size_t n, std::uint32_t least, std::size_t limit,
                          std::uint32_t* positions, float* values);

}  // namespace weir::compressors
