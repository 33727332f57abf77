#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weir::training {

/// What the ranks agree on for one parameter.
struct Mean {
  at::Tensor tensor;  ///< of the parameter's shape; float32, contiguous

  /// If true, all entries are zero but those at `positions`, among which a position may be more than once.
  bool sparse = false;
  std::vector<std::uint32_t> positions;
};

}  // namespace weir::training
