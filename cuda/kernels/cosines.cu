#include "cuda/kernels/cosines.hpp"

#include "base/ensure.hpp"
#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t side = 64;

/// As in the twin's file.
constexpr float coefficient_max = 0x1p115F;
constexpr float harmless = coefficient_max / (2 * side);
constexpr float scale_down = 0x1p-32F;

/// What the threads of a block share.
struct Shared {
  float entries[side * side];
  float both[side * side];
  std::uint32_t largest;
};

/// The sum of weights[k * stride] * values[k * distance], from the first to the last.
__device__ float product(const float* weights, unsigned stride, const float* values, int distance, unsigned count) {
  float sum = 0;
  for (unsigned k = 0; k < count; ++k) sum += weights[k * stride] * values[static_cast<int>(k) * distance];
  return sum;
}

// Even frequencies depend only on the sums of a point and its mirror image, odd ones only on their differences. The
// sums lie where the first half of the points lay, the differences where the other half lay, from the last point on.

__global__ void transform_blocks_kernel(const float* __restrict__ matrix, BlockGrid grid, CosineTables tables,
                                        float* __restrict__ coefficients) {
  auto* const shared = shared_memory<Shared>();
  const std::uint64_t shorter_rows = grid.rows / grid.down;
  const std::uint64_t shorter_columns = grid.columns / grid.across;
  for (std::uint64_t index = blockIdx.x; index < grid.count(); index += gridDim.x) {
    const BlockGrid::Block block = grid.block(index);
    const auto rows = static_cast<unsigned>(block.rows);
    const auto columns = static_cast<unsigned>(block.columns);
    const unsigned entries = rows * columns;
    const float* const from = matrix + block.row * grid.columns + block.column;
    const float* const down = tables.down[rows == shorter_rows ? 0 : 1];
    const float* const across = tables.across[columns == shorter_columns ? 0 : 1];
    float* const to = coefficients + block.position;
    if (threadIdx.x == 0) shared->largest = 0;
    __syncthreads();
    std::uint32_t largest = 0;
    for (unsigned i = threadIdx.x; i < entries; i += threads) {
      const float x = from[i / columns * grid.columns + i % columns];
      shared->entries[i] = x;
      largest = magnitude(x) > largest ? magnitude(x) : largest;
    }
    largest = __reduce_max_sync(all_lanes, largest);
    if (lane_of_thread() == 0) atomicMax(&shared->largest, largest);
    __syncthreads();
    largest = shared->largest;
    const bool is_large = largest > magnitude(harmless);
    const float scale = is_large ? scale_down : 1.0F;

    const unsigned upper = rows - rows / 2;
    for (unsigned i = threadIdx.x; i < upper * columns; i += threads) {
      float* const a = shared->entries + i;
      float* const b = shared->entries + (rows - 1 - i / columns) * columns + i % columns;
      const float first = scale * *a;
      const float last = scale * *b;
      *a = a == b ? first : first + last;
      if (a != b) *b = first - last;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < entries; i += threads) {
      const unsigned frequency = i / columns;
      const bool is_odd = frequency % 2 != 0;
      const float* const values = shared->entries + (is_odd ? (rows - 1) * columns : 0) + i % columns;
      const int distance = is_odd ? -static_cast<int>(columns) : static_cast<int>(columns);
      shared->both[i] = product(down + frequency * rows, 1, values, distance, is_odd ? rows / 2 : upper);
    }
    __syncthreads();

    const unsigned left = columns - columns / 2;
    for (unsigned i = threadIdx.x; i < rows * (columns / 2); i += threads) {
      float* const a = shared->both + i / (columns / 2) * columns + i % (columns / 2);
      float* const b = shared->both + (i / (columns / 2) + 1) * columns - 1 - i % (columns / 2);
      const float first = *a;
      const float last = *b;
      *a = first + last;
      *b = first - last;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < entries; i += threads) {
      const unsigned frequency = i % columns;
      const bool is_odd = frequency % 2 != 0;
      const float* const values = shared->both + i / columns * columns + (is_odd ? columns - 1 : 0);
      float sum = product(across + frequency, columns, values, is_odd ? -1 : 1, is_odd ? columns / 2 : left);
      if (is_large) {
        constexpr float most = coefficient_max * scale_down;
        sum = sum < -most ? -most : sum > most ? most : sum;
        sum *= 1 / scale_down;
      }
      to[i] = largest < magnitude_infinite ? sum : __uint_as_float(magnitude_infinite);
    }
    __syncthreads();
  }
}

}  // namespace

Result<void> transform_blocks(const float* matrix, const BlockGrid& grid, const CosineTables& tables,
                              float* coefficients, StreamHandle stream) {
  if (grid.entries() == 0) return {};
  ensure((grid.rows + grid.down - 1) / grid.down <= side && (grid.columns + grid.across - 1) / grid.across <= side,
         "a block's sides");
  const Shape shape = {.blocks = blocks_for(grid.count()), .threads = threads, .shared_bytes = sizeof(Shared)};
  return launch("transform_blocks", transform_blocks_kernel, shape, stream, matrix, grid, tables, coefficients);
}

}  // namespace weir::cuda
