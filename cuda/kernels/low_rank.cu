#include "cuda/kernels/low_rank.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned together = 4;  ///< vectors that an entry of the matrix is multiplied with while it is at hand
constexpr unsigned unroll = 8;
constexpr unsigned threads = 256;

// The order of the CPU's dot product: sixteen sums of every sixteenth entry, and these in a fixed tree.
constexpr unsigned row_lanes = 16;
constexpr unsigned rows_of_warp = warp_lanes / row_lanes;

__global__ void multiply_kernel(const float* __restrict__ matrix, MatrixShape shape, const float* __restrict__ right,
                                std::uint64_t rank, float* __restrict__ left) {
  const unsigned lane = lane_of_thread() % row_lanes;
  // All lanes of a warp go around as often; those without a row have no entries.
  for (std::uint64_t first = warp_of_grid() * rows_of_warp; first < shape.rows;
       first += warps_of_grid() * rows_of_warp) {
    const std::uint64_t i = first + lane_of_thread() / row_lanes;
    const std::uint64_t n = i < shape.rows ? shape.columns : 0;
    const float* const row = matrix + i * n;
    for (std::uint64_t j = 0; j < rank; j += together) {
      const unsigned count = at_most(rank - j, together);
      float sums[together] = {};
      for (std::uint64_t base = lane; base < n; base += row_lanes * unroll) {
        float x[unroll];
#pragma unroll
        for (unsigned u = 0; u < unroll; ++u) x[u] = base + row_lanes * u < n ? row[base + row_lanes * u] : 0.0F;
#pragma unroll
        for (unsigned u = 0; u < unroll; ++u) {
          const std::uint64_t k = base + row_lanes * u;
          for (unsigned v = 0; v < together; ++v) {
            if (k < n && v < count) sums[v] += x[u] * right[(j + v) * shape.columns + k];
          }
        }
      }
      for (unsigned v = 0; v < together; ++v) {
        float sum = sums[v];
        for (unsigned distance = row_lanes / 2; distance > 0; distance /= 2) {
          sum += __shfl_xor_sync(all_lanes, sum, static_cast<int>(distance));
        }
        if (lane == 0 && i < shape.rows && v < count) left[(j + v) * shape.rows + i] = sum;
      }
    }
  }
}

__global__ void multiply_transposed_kernel(const float* __restrict__ matrix, MatrixShape shape,
                                           const float* __restrict__ left, std::uint64_t rank,
                                           float* __restrict__ right) {
  const std::uint64_t groups = (rank + together - 1) / together;
  for (std::uint64_t at = thread_of_grid(); at < groups * shape.columns; at += threads_of_grid()) {
    const std::uint64_t k = at % shape.columns;
    const std::uint64_t j = at / shape.columns * together;
    const unsigned count = at_most(rank - j, together);
    float sums[together] = {};
    for (std::uint64_t first = 0; first < shape.rows; first += unroll) {
      float x[unroll];
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u) {
        x[u] = first + u < shape.rows ? matrix[(first + u) * shape.columns + k] : 0.0F;
      }
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u) {
        for (unsigned v = 0; v < together; ++v) {
          if (first + u < shape.rows && v < count) sums[v] += left[(j + v) * shape.rows + first + u] * x[u];
        }
      }
    }
    for (unsigned v = 0; v < together; ++v) {
      if (v < count) right[(j + v) * shape.columns + k] = sums[v];
    }
  }
}

}  // namespace

Result<void> multiply(const float* matrix, const MatrixShape& shape, const float* right, std::uint64_t rank,
                      float* left, StreamHandle stream) {
  if (shape.rows == 0 || rank == 0) return {};
  constexpr std::uint64_t rows = threads / row_lanes;
  const Shape of_launch = {.blocks = blocks_for((shape.rows + rows - 1) / rows), .threads = threads};
  return launch("multiply", multiply_kernel, of_launch, stream, matrix, shape, right, rank, left);
}

Result<void> multiply_transposed(const float* matrix, const MatrixShape& shape, const float* left, std::uint64_t rank,
                                 float* right, StreamHandle stream) {
  if (shape.columns == 0 || rank == 0) return {};
  const std::uint64_t sums = (rank + together - 1) / together * shape.columns;
  return launch("multiply_transposed", multiply_transposed_kernel, shape_for(sums, 1), stream, matrix, shape, left,
                rank, right);
}

}  // namespace weir::cuda
