#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

/// A lower bound for the `count`-th largest magnitude(), found cheaply from the maxima of groups of values: at least
/// `count` values reach it, and, if there are many times `count` values, not many more do. Returns 0 (no bound) if
/// looking for one would take longer than it saves.
std::uint32_t floor_of_largest(std::span<const float> values, std::size_t count);

}  // namespace weir::compressors
