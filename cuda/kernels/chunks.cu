#include "cuda/kernels/chunks.hpp"

#include "cuda/kernels/each.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned threads = 256;

// Sixteen lanes take a chunk, so a warp takes two.
constexpr unsigned sum_lanes = 16;
constexpr unsigned sum_unroll = 4;
constexpr unsigned sums_of_warp = warp_lanes / sum_lanes;

__global__ void sum_magnitudes_kernel(const float* __restrict__ values, Chunks chunks, float* __restrict__ sums) {
  constexpr float most = 0x1.FFFFFEp127F;
  const unsigned lane = lane_of_thread() % sum_lanes;
  const std::uint64_t count = chunks.count();
  // All lanes of a warp go around as often; a team without a chunk has no entries.
  for (std::uint64_t first = warp_of_grid() * sums_of_warp; first < count; first += warps_of_grid() * sums_of_warp) {
    const std::uint64_t chunk = first + lane_of_thread() / sum_lanes;
    const std::uint64_t start = chunk * chunks.length;
    const std::uint64_t end = start + chunks.length < chunks.n ? start + chunks.length : chunks.n;
    float sum = 0;
    std::uint32_t largest = 0;
    for (std::uint64_t base = start + lane; base < end; base += sum_lanes * sum_unroll) {
      std::uint32_t sizes[sum_unroll];
#pragma unroll
      for (unsigned k = 0; k < sum_unroll; ++k) {
        sizes[k] = base + sum_lanes * k < end ? magnitude(values[base + sum_lanes * k]) : 0;
      }
#pragma unroll
      for (unsigned k = 0; k < sum_unroll; ++k) {
        largest = sizes[k] > largest ? sizes[k] : largest;
        sum += __uint_as_float(sizes[k]);
      }
    }
    float all = 0;
    bool is_finite = true;
    for (unsigned from = 0; from < sum_lanes; ++from) {
      all += __shfl_sync(all_lanes, sum, static_cast<int>(from), static_cast<int>(sum_lanes));
      const auto theirs = __shfl_sync(all_lanes, largest, static_cast<int>(from), static_cast<int>(sum_lanes));
      if (theirs >= magnitude_infinite) is_finite = false;
    }
    if (lane != 0 || chunk >= count) continue;
    sums[chunk] = !is_finite ? __uint_as_float(magnitude_infinite) : all < most ? all : most;
  }
}

__device__ void write_float(float value, std::byte* to) {
  if (reinterpret_cast<std::uintptr_t>(to) % alignof(float) == 0) {
    *reinterpret_cast<float*>(to) = value;
    return;
  }
  for (unsigned k = 0; k < 4; ++k) to[k] = static_cast<std::byte>(__float_as_uint(value) >> 8 * k & 0xFF);
}

/// Calls work(i, at) for each entry of the chosen chunks: i counts them, `at` is the entry. A block takes a chunk, or a
/// large one in parts of this many.
constexpr std::uint64_t part = 4096;
template <class Work>
__device__ void for_each_chosen(const Chunks& chunks, const std::uint32_t* chosen, std::uint64_t count,
                                const Work& work) {
  const std::uint64_t parts = (chunks.length + part - 1) / part;
  for (std::uint64_t k = blockIdx.x; k < count * parts; k += gridDim.x) {
    const std::uint64_t first = k % parts * part;
    const std::uint64_t last = first + part < chunks.length ? first + part : chunks.length;
    const std::uint64_t start = chosen[k / parts] * chunks.length;
    for (std::uint64_t i = first + threadIdx.x; i < last && start + i < chunks.n; i += blockDim.x) {
      work(k / parts * chunks.length + i, start + i);
    }
  }
}

__global__ void take_chunks_kernel(const float* __restrict__ values, Chunks chunks,
                                   const std::uint32_t* __restrict__ chosen, std::uint64_t count,
                                   std::byte* __restrict__ to, Report* report) {
  NoteLargest note{report};
  for_each_chosen(chunks, chosen, count, [&](std::uint64_t i, std::uint64_t at) {
    note(values[at]);
    write_float(values[at], to + 4 * i);
  });
  note.end();
}

Shape shape_for_chosen(const Chunks& chunks, std::uint64_t count) {
  return {.blocks = blocks_for(count * ((chunks.length + part - 1) / part)), .threads = threads};
}

}  // namespace

Result<void> sum_magnitudes(const float* values, const Chunks& chunks, float* sums, StreamHandle stream) {
  if (chunks.n == 0) return {};
  constexpr std::uint64_t of_block = sums_of_warp * threads / warp_lanes;
  const Shape shape = {.blocks = blocks_for((chunks.count() + of_block - 1) / of_block), .threads = threads};
  return launch("sum_magnitudes", sum_magnitudes_kernel, shape, stream, values, chunks, sums);
}

Result<void> take_chunks(const float* values, const Chunks& chunks, const std::uint32_t* chosen, std::uint64_t count,
                         std::byte* to, Report* report, StreamHandle stream) {
  if (count == 0) return {};
  return launch("take_chunks", take_chunks_kernel, shape_for_chosen(chunks, count), stream, values, chunks, chosen,
                count, to, report);
}

}  // namespace weir::cuda
