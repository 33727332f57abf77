#include "cuda/kernels/copy.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

__global__ void copy_kernel(const float* __restrict__ from, std::uint64_t n, float* __restrict__ to) {
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 4);
    store_four(load_four(from + at, count), to + at, count);
  }
}

}  // namespace

Result<void> copy(const float* from, std::uint64_t n, float* to, StreamHandle stream) {
  if (n == 0) return {};
  return launch("copy", copy_kernel, shape_for(n, 4), stream, from, n, to);
}

}  // namespace weir::cuda
