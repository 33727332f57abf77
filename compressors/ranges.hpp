#pragma once

#include <cstddef>
#include <functional>

#include "compressors/kernels/selection.hpp"

namespace weir::compressors {

/// Calls body(begin, end) for ranges that together are [0, entries), on the calling thread and those of LibTorch's
/// pool, if it has any (at::set_num_threads). All ranges but the last begin and end at a multiple of `align`.
void for_ranges(std::size_t entries, std::size_t align, const std::function<void(std::size_t, std::size_t)>& body);

/// Fills `out` with what choose(begin, end, part) finds in ranges as those of for_ranges(), in their order. False if it
/// was false of any of them.
bool select_in_ranges(std::size_t entries, std::size_t align, Selection& out,
                      const std::function<bool(std::size_t, std::size_t, Selection&)>& choose);

/// Calls body(i) for every i below `count`, on the same threads: for parts that are much work each.
void for_each_part(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace weir::compressors
