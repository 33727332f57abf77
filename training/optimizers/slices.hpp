#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

namespace weir::training {

/// How many entries go through all passes of a step before the next ones do: few enough that parameters, means and
/// moments are still in the cache of a core when they are read again.
inline constexpr std::int64_t slice_entries = 64 * 1024;

/// Calls visit(begin, count) for one slice after the other of so many entries.
template <class Visit>
void for_slices(std::int64_t entries, Visit&& visit) {
  const std::int64_t slice = slice_entries * at::get_num_threads();
  for (std::int64_t begin = 0; begin < entries; begin += slice) visit(begin, std::min(slice, entries - begin));
}

}  // namespace weir::training
