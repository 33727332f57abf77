#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/optimizers/groups.hpp"

namespace weir::training {

// What takes a step together. On the processor that is a slice of one parameter, which goes through all operations
// while it is in the cache. On a device it is all parameters to which the same happens, because each operation is work
// that has to be begun there.

/// Numbers of parameters that take a step together.
using Turn = std::vector<std::size_t>;

/// All parameters in turns. `rules`: by parameter; those of a turn have the same.
std::vector<Turn> turns_of(std::span<const at::Tensor> parameters, std::span<const ParameterRule> rules);

/// How many entries of a parameter a core takes at a time on the processor: few enough that parameters, means and
/// moments are still in its cache when they are read again.
inline constexpr std::int64_t slice_entries = 64 * 1024;

/// Some entries of the parameters of a turn.
struct Slice {
  const Turn& turn;
  std::int64_t begin = 0;
  std::int64_t count = 0;  ///< 0: all, of each

  /// These entries of tensors. `all`: by parameter, of its extents and contiguous.
  std::vector<at::Tensor> of(std::span<const at::Tensor> all) const {
    std::vector<at::Tensor> parts;
    parts.reserve(turn.size());
    for (const auto parameter : turn) {
      parts.push_back(count == 0 ? all[parameter] : all[parameter].view({-1}).narrow(0, begin, count));
    }
    return parts;
  }
};

/// Calls visit(Slice) for one slice after the other of the parameters of a turn.
template <class Visit>
void for_slices(const Turn& turn, std::span<const at::Tensor> parameters, Visit&& visit) {
  const at::Tensor& first = parameters[turn.front()];
  if (!first.is_cpu()) return visit(Slice{turn});
  const std::int64_t entries = first.numel();
  const std::int64_t slice = slice_entries * at::get_num_threads();
  for (std::int64_t begin = 0; begin < entries; begin += slice) {
    visit(Slice{turn, begin, std::min(slice, entries - begin)});
  }
}

}  // namespace weir::training
