#include "training/exchange/mean.hpp"

#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"

namespace weir::training {

Result<void> restart(Mean& mean, bool sparse) {
  if (mean.is_there()) {
    Mean* const one = &mean;
    return restart_there(std::span(&one, 1));
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

Result<void> restart_there(std::span<Mean* const> means) {
  std::vector<compressors::device::PositionsIn> known;
  std::vector<at::Tensor> dense;
  for (Mean* const mean : means) {
    at::Tensor positions = std::exchange(mean->positions_there, {});
    if (positions.defined()) {
      known.push_back({std::move(positions), mean->tensor});
    } else {
      dense.push_back(mean->tensor);
    }
  }
  if (!dense.empty()) at::_foreach_zero_(dense);
  return compressors::device::clear_entries(known);
}

Result<void> add_there(float weight, std::span<const EntriesForMean> entries) {
  std::vector<compressors::device::EntriesFor> all;
  for (const auto& [selections, mean] : entries) all.push_back({selections, mean->tensor});
  auto added = compressors::device::add_entries(weight, all);
  if (!added) return added.error();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    at::Tensor& positions = entries[i].mean->positions_there;
    positions = positions.defined() ? at::cat({positions, (*added)[i]}) : std::move((*added)[i]);
  }
  return {};
}

}  // namespace weir::training
