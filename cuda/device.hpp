#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace weir::cuda {

/// Has this thread's calls of CUDA use the GPU of that number in this process. Fails with: internal (there is none of
/// that number, or no driver).
Result<void> use_gpu(std::int32_t gpu);

}  // namespace weir::cuda
