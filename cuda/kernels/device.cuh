#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/report.hpp"

namespace weir::cuda {

// What kernels share. Blocks are one-dimensional, and whole warps.

inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned all_lanes = ~0U;

__device__ inline unsigned lane_of_thread() { return threadIdx.x % warp_lanes; }

/// The number of this warp among all of the grid, and how many there are.
__device__ inline std::uint64_t warp_of_grid() {
  return (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_lanes;
}
__device__ inline std::uint64_t warps_of_grid() { return std::uint64_t{gridDim.x} * blockDim.x / warp_lanes; }

/// The memory that the threads of a block share, as many bytes as its launch says (Shape). Kernels have no other: the
/// emulator must know where it is.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ uint4 weir_shared[];
  return reinterpret_cast<T*>(weir_shared);
}

__device__ inline std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFU; }

/// Raises `*place` to `value`. All lanes of the warp take part.
__device__ inline void raise(std::uint32_t* place, std::uint32_t value) {
  const std::uint32_t most = __reduce_max_sync(all_lanes, value);
  // Most warps find it high enough: thousands of atomics on one place would take longer than the kernel's end.
  if (lane_of_thread() == 0 && most > *static_cast<volatile std::uint32_t*>(place)) atomicMax(place, most);
}

}  // namespace weir::cuda
