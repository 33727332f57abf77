#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/selection.hpp"

namespace weir::compressors {

/// Calls body(begin, end) for ranges that together are [0, entries), on the calling thread and those of LibTorch's
/// pool, if it has any (at::set_num_threads). All ranges but the last begin and end at a multiple of `align`.
void for_ranges(std::size_t entries, std::size_t align, const std::function<void(std::size_t, std::size_t)>& body);

/// The same for `count` parts of about `entries` entries each: calls body(first, last) for ranges of them.
void for_ranges_of_parts(std::size_t count, std::size_t entries,
                         const std::function<void(std::size_t, std::size_t)>& body);

/// Fills `out` with what choose(begin, end, part) finds in ranges as those of for_ranges(), in their order. False if it
/// was false of any of them.
bool select_in_ranges(std::size_t entries, std::size_t align, Selection& out,
                      const std::function<bool(std::size_t, std::size_t, Selection&)>& choose);

/// collect() on these threads.
bool collect_in_ranges(std::span<const float> values, std::uint32_t least, std::size_t limit, Selection& out);

/// Calls body(i) for every i below `count`, on these threads; a part is as much work as `entries` entries.
void for_each_part(std::size_t count, std::size_t entries, const std::function<void(std::size_t)>& body);

/// The same as a loop over parts that payloads are written and read by (codecs/payload.hpp).
PartLoop parts_of(std::size_t entries);

/// A position or a value that is written is as much work as so many entries.
inline constexpr std::size_t coding_work = 4;

/// The one for the pieces of a checksum.
void for_each_piece(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace weir::compressors
