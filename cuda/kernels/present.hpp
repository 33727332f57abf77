#pragma once

#include "base/result.hpp"

namespace weir::cuda {

/// Whether the kernels of this build run here: on the GPU that this thread's calls of CUDA use, and with this driver.
/// Fails with: unsupported (they do not, or there is no driver; the context is a sentence), internal.
Result<void> check_kernels();

}  // namespace weir::cuda
