#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace weir::training {

/// How many entries go through all passes of a step before the next ones do: few enough that parameters, means and
/// moments are still in the cache of a core when they are read again.
inline constexpr std::int64_t slice_entries = 64 * 1024;

/// Calls visit(begin, count) for one slice after the other of a tensor's entries. On a device that is all of them: each
/// operation is work that has to be begun there.
template <class Visit>
void for_slices(const at::Tensor& tensor, Visit&& visit) {
  const std::int64_t entries = tensor.numel();
  const std::int64_t slice =
      tensor.is_cpu() ? slice_entries * at::get_num_threads() : std::max<std::int64_t>(entries, 1);
  for (std::int64_t begin = 0; begin < entries; begin += slice) visit(begin, std::min(slice, entries - begin));
}

}  // namespace weir::training
