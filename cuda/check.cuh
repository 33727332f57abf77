#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir::cuda {

/// What CUDA answered to `what`, as a result. Fails with: exhausted (the device's memory), internal.
inline Result<void> check(cudaError_t answer, const std::string& what) {
  if (answer == cudaSuccess) return {};
  return Error(answer == cudaErrorMemoryAllocation ? Errc::exhausted : Errc::internal,
               what + ": " + cudaGetErrorString(answer));
}

}  // namespace weir::cuda
