#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {

// The last step of sums in the order of the CPU: parts, each the sum of a block of entries, are added up in runs of 64,
// and then the sums of the runs.

inline constexpr unsigned parts_of_run = 64;
inline constexpr unsigned runs_threads = 256;

/// For kernels that call sum_of_runs(), which have __launch_bounds__(runs_threads, 1): registers for all those loads.
template <class Sum>
Shape shape_for_runs() {
  return {.blocks = 1, .threads = runs_threads, .shared_bytes = runs_threads * sizeof(Sum)};
}

/// The sum, which thread 0 gets. A default Sum is zero; add(to, from) adds to one. All threads of the block take part.
template <class Sum, class Add>
__device__ Sum sum_of_runs(const Sum* parts, std::uint64_t count, const Add& add) {
  constexpr unsigned unroll = 8;  // loads under way per thread
  auto* const of_runs = shared_memory<Sum>();
  const std::uint64_t runs = (count + parts_of_run - 1) / parts_of_run;
  Sum all{};
  for (std::uint64_t first = 0; first < runs; first += runs_threads) {
    const std::uint64_t run = first + threadIdx.x;
    const Sum* const from = parts + run * parts_of_run;
    const unsigned size = run < runs ? at_most(count - run * parts_of_run, parts_of_run) : 0;
    Sum sum{};
    unsigned at = 0;
    for (; at + unroll <= size; at += unroll) {
      Sum loaded[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) loaded[k] = from[at + k];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) add(sum, loaded[k]);
    }
    for (; at < size; ++at) add(sum, from[at]);
    of_runs[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      const unsigned ready = at_most(runs - first, runs_threads);
      for (unsigned k = 0; k < ready; ++k) add(all, of_runs[k]);
    }
    __syncthreads();
  }
  return all;
}

}  // namespace weir::cuda
