#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

/// A magnitude() that at least `count` of the values reach and, where they are many times `count`, not many more: what
/// the largest of a few groups of them tell. 0 if it does not pay.
std::uint32_t floor_of_largest(std::span<const float> values, std::size_t count);

}  // namespace weir::compressors
