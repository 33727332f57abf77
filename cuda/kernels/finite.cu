#include "cuda/kernels/finite.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

__global__ void find_largest_kernel(const float* __restrict__ values, std::uint64_t n, Report* report) {
  std::uint32_t largest = 0;
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const Four four = load_four(values + at, at_most(n - at, 4));
    for (const float value : four.x) largest = magnitude(value) > largest ? magnitude(value) : largest;
  }
  raise(&report->largest, largest);
}

__global__ void set_kernel(unsigned long long* place, unsigned long long value) { *place = value; }

__global__ void find_non_finite_kernel(const float* __restrict__ values, std::uint64_t n, unsigned long long* first) {
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const Four four = load_four(values + at, at_most(n - at, 4));
    for (unsigned k = 0; k < 4; ++k) {
      if (magnitude(four.x[k]) >= magnitude_infinite) atomicMin(first, static_cast<unsigned long long>(at + k));
    }
  }
}

}  // namespace

Result<void> find_largest(const float* values, std::uint64_t n, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  return launch("find_largest", find_largest_kernel, shape_for(n, 4), stream, values, n, report);
}

Result<void> find_non_finite(const float* values, std::uint64_t n, unsigned long long* first, StreamHandle stream) {
  const auto set = launch("find_non_finite (start)", set_kernel, {.blocks = 1, .threads = 1}, stream, first, n);
  if (!set || n == 0) return set;
  return launch("find_non_finite", find_non_finite_kernel, shape_for(n, 4), stream, values, n, first);
}

}  // namespace weir::cuda
