#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/bins.hpp"
#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {

// Loops over a tensor's entries. The threads of a block take neighbouring entries, so any alignment will do; several
// loads of each are under way before the first result is stored.

inline constexpr unsigned each_threads = 256;
inline constexpr unsigned each_unroll = 8;
inline constexpr unsigned each_tile = each_threads * each_unroll;

inline std::uint64_t each_tiles(std::uint64_t n) { return (n + each_tile - 1) / each_tile; }

inline Shape shape_for_each(std::uint64_t n, std::size_t shared_bytes = 0) {
  return {.blocks = blocks_for(each_tiles(n)), .threads = each_threads, .shared_bytes = shared_bytes};
}

/// Calls load(i) for all entries of a tile, and then finish(i, loaded, is_entry), which all threads of the block call
/// equally often: beyond the last of n entries with the value `none`.
template <class Loaded, class Load, class Finish>
__device__ void for_tile(std::uint64_t tile, std::uint64_t n, Loaded none, const Load& load, const Finish& finish) {
  const std::uint64_t start = tile * each_tile;
  Loaded loaded[each_unroll];
#pragma unroll
  for (unsigned k = 0; k < each_unroll; ++k) {
    const std::uint64_t i = start + k * each_threads + threadIdx.x;
    loaded[k] = i < n ? load(i) : none;
  }
#pragma unroll
  for (unsigned k = 0; k < each_unroll; ++k) {
    const std::uint64_t i = start + k * each_threads + threadIdx.x;
    finish(i, loaded[k], i < n);
  }
}

/// The same for all of the block's tiles.
template <class Loaded, class Load, class Finish>
__device__ void for_each_tile(std::uint64_t n, Loaded none, const Load& load, const Finish& finish) {
  for (std::uint64_t tile = blockIdx.x; tile * each_tile < n; tile += gridDim.x) for_tile(tile, n, none, load, finish);
}

// What a loop notes of the values that it writes. All threads of a block begin and end.

struct NoteNothing {
  static constexpr std::size_t shared_bytes = 0;
  __device__ void begin() {}
  __device__ void operator()(float) {}
  __device__ void end() {}
};

struct NoteLargest {
  static constexpr std::size_t shared_bytes = 0;
  __device__ void begin() {}
  __device__ void operator()(float x) { largest = magnitude(x) > largest ? magnitude(x) : largest; }
  __device__ void end() { raise(&report->largest, largest); }

  Report* report;
  std::uint32_t largest = 0;
};

/// The counts of a block in its shared memory.
__device__ inline void clear_shared_bins() {
  auto* const counts = shared_memory<std::uint32_t>();
  for (unsigned bin = threadIdx.x; bin < Bins::size; bin += blockDim.x) counts[bin] = 0;
  __syncthreads();
}
__device__ inline void add_shared_bins(Bins* bins) {
  const auto* const counts = shared_memory<std::uint32_t>();
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < Bins::size; bin += blockDim.x) {
    if (counts[bin] > 0) atomicAdd(&bins->counts[bin], counts[bin]);
  }
}

struct NoteBins {
  static constexpr std::size_t shared_bytes = sizeof(Bins);
  __device__ void begin() { clear_shared_bins(); }
  __device__ void operator()(float x) {
    atomicAdd(&shared_memory<std::uint32_t>()[magnitude(x) >> (31 - Bins::bits)], 1U);
  }
  __device__ void end() { add_shared_bins(bins); }

  Bins* bins;
};

}  // namespace weir::cuda
