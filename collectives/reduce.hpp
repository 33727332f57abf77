#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.hpp"

namespace weir::collectives {

/// The numbers in a Buffer.
enum class Element : std::uint8_t { float32, float16, bfloat16 };

inline constexpr std::array all_elements{Element::float32, Element::float16, Element::bfloat16};
std::string_view name_of(Element element);

constexpr std::size_t bytes_of(Element element) { return element == Element::float32 ? 4 : 2; }

/// What an all-reduce makes of the values that the ranks have for one element.
enum class ReduceOp : std::uint8_t {
  sum,       ///< 16-bit sums saturate at the largest finite number
  mean,      ///< in 16 bits each rank's value is divided first, so that the sum stays within the format's range
  min,       ///< where a value is NaN: the value of any rank, the same on all
  max,       ///< as for min
  majority,  ///< of the signs: 1, -1, or 0 where as many are positive as negative; a zero has no vote
};

/// The number of ranks up to which `op` is right. A majority counts votes in numbers of the buffer: with n significant
/// bits every count up to 2^n is right, and a larger one is rounded to a count that is still larger than all votes that
/// are left, as long as there are no more than 2^(n+1) ranks.
constexpr std::uint32_t ranks_max(ReduceOp op, Element element) {
  if (op != ReduceOp::majority) return 0xffff'ffff;
  if (element == Element::bfloat16) return 1U << 9;
  return element == Element::float16 ? 1U << 12 : 1U << 25;
}

/// Turns this rank's values into what is combined. `ranks`: how many take part.
void prepare(ReduceOp op, Element element, std::span<std::byte> values, std::uint32_t ranks);

/// Combines the values `from` into `to`, element by element: added, or the smaller or larger of both. In 16 bits: added
/// in float32, then rounded to nearest even.
void combine(ReduceOp op, Element element, BytesView from, std::span<std::byte> to);

/// Turns the combination of all ranks' values into the result.
void conclude(ReduceOp op, Element element, std::span<std::byte> values, std::uint32_t ranks);

}  // namespace weir::collectives
