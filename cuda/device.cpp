#include "cuda/device.hpp"

#include "cuda/check.cuh"

namespace weir::cuda {

Result<void> use_gpu(std::int32_t gpu) { return check(cudaSetDevice(gpu), "using GPU " + std::to_string(gpu)); }

}  // namespace weir::cuda
