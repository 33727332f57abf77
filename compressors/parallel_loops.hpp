#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

// Parallel loops over a tensor's entries. They run on the calling thread and on LibTorch's pool (at::set_num_threads);
// small tensors stay on the calling thread.

/// Divides [0, entries) into ranges and calls body(begin, end) for each. All boundaries but the last are multiples of
/// `align`.
void parallel_for_ranges(std::size_t entries, std::size_t align, FunctionRef<void(std::size_t, std::size_t)> body);

/// Divides `count` parts, each as much work as `entries` entries, into ranges and calls body(first, last) for each.
void parallel_for_part_ranges(std::size_t count, std::size_t entries, FunctionRef<void(std::size_t, std::size_t)> body);

/// Runs choose(begin, end, selection) on each range, as parallel_for_ranges() does, and concatenates the selections in
/// order into `out`. Returns false if any call returned false.
bool parallel_select(std::size_t entries, std::size_t align, Selection& out,
                     FunctionRef<bool(std::size_t, std::size_t, Selection&)> choose);

/// collect() (kernels/selection/selection.hpp), on several threads. `peaks` may be empty.
bool parallel_collect(std::span<const float> values, Peaks peaks, std::uint32_t least, std::size_t limit,
                      Selection& out);

/// Calls body(i) for every i below `count`, on several threads. Each call is as much work as `entries` entries.
void parallel_for_parts(std::size_t count, std::size_t entries, FunctionRef<void(std::size_t)> body);

/// The PartLoop (codecs/payload.hpp) that runs parts of `entries` entries each with parallel_for_parts().
PartLoop parallel_parts(std::size_t entries);

/// Writing one position or one value is as much work as reading this many entries.
inline constexpr std::size_t coding_work = 4;

/// The PartLoop for the pieces of a checksum.
void parallel_for_pieces(std::size_t count, FunctionRef<void(std::size_t)> body);

}  // namespace weir::compressors
