#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::training {

/// What the ranks agree on for one parameter.
struct Mean {
  at::Tensor tensor;  ///< of the parameter's shape; float32, contiguous. Undefined before it is needed

  /// If true, all entries are zero but those at `positions`, among which a position may be more than once. Of a mean in
  /// the host's memory.
  bool sparse = false;
  std::vector<std::uint32_t> positions;

  /// Of a mean that is made on a device, beside it: if defined, all entries are zero but those at these positions
  /// (compressors/device/memory_steps.hpp), among which a position may be more than once.
  at::Tensor positions_there = {};

  bool is_there() const { return tensor.defined() && !tensor.is_cpu(); }
};

/// Makes all entries zero, on a device in the calling thread's current stream. `sparse`: what is then added to it will
/// be said by positions. Fails as compressors/device.
Result<void> restart(Mean& mean, bool sparse);
/// The same of several means on a device.
Result<void> restart_there(std::span<Mean* const> means);

/// What is to be added to a mean on a device: the entries of one selection after the other.
struct EntriesForMean {
  std::vector<const compressors::Selection*> selections;
  Mean* mean = nullptr;
};

/// Adds `weight` times these entries, in the calling thread's current stream. Fails as compressors/device.
Result<void> add_there(float weight, std::span<const EntriesForMean> entries);

}  // namespace weir::training
