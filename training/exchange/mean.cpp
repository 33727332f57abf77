#include "training/exchange/mean.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"

namespace weir::training {

Result<void> restart(Mean& mean, bool sparse) {
  if (mean.is_there()) {
    const at::Tensor positions = std::exchange(mean.positions_there, {});
    if (positions.defined()) return compressors::device::clear_selection(positions, mean.tensor);
    mean.tensor.zero_();
    return {};
  }
  const auto values = compressors::flat(mean.tensor);
  if (mean.sparse) {
    for (const auto position : mean.positions) values[position] = 0;
  } else {
    std::ranges::fill(values, 0.0F);
  }
  mean.positions.clear();
  mean.sparse = sparse;
  return {};
}

Result<void> add_there(float weight, std::span<const compressors::Selection* const> selections, Mean& mean) {
  auto added = compressors::device::add_selections(weight, selections, mean.tensor);
  if (!added) return added.error();
  const at::Tensor before = mean.positions_there;
  mean.positions_there = before.defined() ? at::cat({before, *added}) : *added;
  return {};
}

}  // namespace weir::training
