#include "cuda/kernels/cosines.hpp"

#include "base/ensure.hpp"
#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned side = 64;
constexpr unsigned half = side / 2;
constexpr unsigned tile = 4;  ///< of each four lines a thread computes four frequencies
constexpr unsigned threads = side / tile * (side / tile);
constexpr unsigned pitch = side + tile;  ///< between rows, so that columns lie in different banks

/// As in the twin's file.
constexpr float coefficient_max = 0x1p115F;
constexpr float harmless = coefficient_max / (2 * side);
constexpr float scale_down = 0x1p-32F;

// Even frequencies depend only on the sums of a point and its mirror image, odd ones only on their differences. So the
// even ones lie before all odd ones, and the sums where the first half of the points lay, the differences where the
// other half lay, from the last point on.

/// Where a frequency lies, and which one lies there.
__device__ unsigned place_of(unsigned frequency) { return frequency % 2 * half + frequency / 2; }
__device__ unsigned frequency_at(unsigned place) { return place % half * 2 + place / half; }

/// What the threads of a block share.
struct Shared {
  float values[side * pitch];  ///< points by lines, then lines by frequencies
  float down[half * pitch];    ///< the first half of the points by frequencies
  float across[half * pitch];
};

/// Brings a table of n points to shared memory. `by_frequency`: the points of a frequency follow each other.
__device__ void load_weights(const float* __restrict__ table, unsigned n, bool by_frequency, float* weights) {
  for (unsigned i = threadIdx.x; i < n * n; i += threads) {
    const unsigned point = by_frequency ? i % n : i / n;
    const unsigned frequency = by_frequency ? i / n : i % n;
    if (point < n - n / 2) weights[point * pitch + place_of(frequency)] = table[i];
  }
}

/// Transforms lines of n points, of which sums and differences are in `values`: then the lines' frequencies are there.
/// All threads of the block take part. Calls is_line(where the first of four lies).
template <class IsLine>
__device__ void transform(float* values, unsigned n, const float* weights, const IsLine& is_line) {
  // Eight neighbouring lanes take four times four frequencies of two times four lines.
  const unsigned lane = lane_of_thread();
  const unsigned warp = threadIdx.x / warp_lanes;
  const unsigned place = (warp % 4 * 4 + lane % 4) * tile;
  const unsigned line = (warp / 4 * 8 + lane / 4) * tile;
  const bool is_odd = place >= half;
  const unsigned points = is_odd ? n / 2 : n - n / 2;
  const bool is_any = place % half < points && is_line(line);
  float sums[tile][tile] = {};  // of a line and a frequency, from the first point to the last
  if (is_any) {
    const float* weight = weights + place;
    const float* value = values + (is_odd ? (n - 1) * pitch : 0) + line;
    const int next = is_odd ? -static_cast<int>(pitch) : static_cast<int>(pitch);
#pragma unroll 2
    for (unsigned k = 0; k < points; ++k, weight += pitch, value += next) {
      const float4 of_frequencies = *reinterpret_cast<const float4*>(weight);
      const float4 of_lines = *reinterpret_cast<const float4*>(value);
      const float a[tile] = {of_frequencies.x, of_frequencies.y, of_frequencies.z, of_frequencies.w};
      const float b[tile] = {of_lines.x, of_lines.y, of_lines.z, of_lines.w};
#pragma unroll
      for (unsigned l = 0; l < tile; ++l) {
#pragma unroll
        for (unsigned f = 0; f < tile; ++f) sums[l][f] += a[f] * b[l];
      }
    }
  }
  __syncthreads();
  if (is_any) {
#pragma unroll
    for (unsigned l = 0; l < tile; ++l) {
      *reinterpret_cast<float4*>(values + (line + l) * pitch + place) =
          make_float4(sums[l][0], sums[l][1], sums[l][2], sums[l][3]);
    }
  }
  __syncthreads();
}

__global__ void __launch_bounds__(threads, 4)
    transform_blocks_kernel(const float* __restrict__ matrix, BlockGrid grid, CosineTables tables,
                            float* __restrict__ coefficients) {
  constexpr unsigned rows_together = threads / side;
  Shared& shared = *shared_memory<Shared>();
  float* const values = shared.values;
  const unsigned first_row = threadIdx.x / side;
  const unsigned column = threadIdx.x % side;
  unsigned rows = 0;
  unsigned columns = 0;
  for (std::uint64_t index = blockIdx.x; index < grid.count(); index += gridDim.x) {
    const BlockGrid::Block block = grid.block(index);
    if (rows != block.rows) {
      rows = static_cast<unsigned>(block.rows);
      load_weights(block.rows * grid.down > grid.rows ? tables.down[1] : tables.down[0], rows, true, shared.down);
    }
    if (columns != block.columns) {
      columns = static_cast<unsigned>(block.columns);
      load_weights(block.columns * grid.across > grid.columns ? tables.across[1] : tables.across[0], columns, false,
                   shared.across);
    }
    const unsigned upper = rows - rows / 2;
    const float* top = matrix + (block.row + first_row) * grid.columns + block.column + column;
    const float* bottom = top + (rows - 1) * grid.columns - 2 * first_row * grid.columns;
    const std::uint64_t step = rows_together * grid.columns;
    float above[half / rows_together];
    float below[half / rows_together];
    std::uint32_t largest = 0;
#pragma unroll
    for (unsigned k = 0; k < half / rows_together; ++k, top += step, bottom -= step) {
      const bool is_entry = first_row + rows_together * k < upper && column < columns;
      above[k] = is_entry ? *top : 0.0F;
      below[k] = is_entry ? *bottom : 0.0F;
    }
#pragma unroll
    for (unsigned k = 0; k < half / rows_together; ++k) {
      largest = magnitude(above[k]) > largest ? magnitude(above[k]) : largest;
      largest = magnitude(below[k]) > largest ? magnitude(below[k]) : largest;
    }
    // The threads have also left the block before.
    const bool is_large = __syncthreads_or(largest > magnitude(harmless) ? 1 : 0) != 0;
    const bool is_finite = !is_large || __syncthreads_or(largest >= magnitude_infinite ? 1 : 0) == 0;
    const float scale = is_large ? scale_down : 1.0F;

#pragma unroll
    for (unsigned k = 0; k < half / rows_together; ++k) {
      const unsigned i = first_row + rows_together * k;
      if (i >= upper) continue;
      const float first = scale * above[k];
      const float last = scale * below[k];
      const bool is_middle = i == rows - 1 - i;
      values[i * pitch + column] = is_middle ? first : first + last;
      if (!is_middle) values[(rows - 1 - i) * pitch + column] = first - last;
    }
    __syncthreads();
    transform(values, rows, shared.down, [&](unsigned line) { return line < columns; });

    for (unsigned j = first_row; j < columns / 2; j += rows_together) {
      float* const a = values + j * pitch + column;
      float* const b = values + (columns - 1 - j) * pitch + column;
      const float first = *a;
      const float last = *b;
      *a = first + last;
      *b = first - last;
    }
    __syncthreads();
    transform(values, columns, shared.across, [&](unsigned line) { return frequency_at(line) < rows; });

    if (column < columns) {
      for (unsigned i = first_row; i < rows; i += rows_together) {
        float sum = values[place_of(i) * pitch + place_of(column)];
        if (is_large) {
          constexpr float most = coefficient_max * scale_down;
          sum = sum < -most ? -most : sum > most ? most : sum;
          sum *= 1 / scale_down;
        }
        coefficients[block.position + i * columns + column] = is_finite ? sum : __uint_as_float(magnitude_infinite);
      }
    }
  }
}

// The inverse. A wave of even frequency is its own mirror image, one of odd frequency the negative of it: of each of
// the four kinds of coefficients, by the parities of their frequencies down and across, a quarter of the block
// suffices. A kind is a sum of products, one for each column that has coefficients: what these make of the column down
// the upper half of the rows, times the column's wave across the left half. The products are added in the order in
// which the columns' first coefficients follow each other.

constexpr unsigned kinds = 4;
constexpr unsigned quarter = half * half;

/// What the threads of a block share.
struct SharedInverse {
  float values[side * side];       ///< of the coefficients that there are; then the waves across, as `down`
  float down[kinds * quarter];     ///< of each kind and product, by row
  std::uint32_t present[side][2];  ///< of each row, in which columns there are coefficients
  unsigned first[2][side];         ///< of each column, the first row of that parity with a coefficient
  unsigned column[kinds][half];    ///< of each product
  unsigned products[kinds];
};

/// Notes the coefficients of a block. Returns whether there are any.
__device__ bool load_coefficients(const Coefficients& all, const BlockGrid::Block& block, SharedInverse& shared) {
  const auto columns = static_cast<unsigned>(block.columns);
  const std::uint64_t end = block.position + block.rows * block.columns;
  std::uint64_t at = 0;  // of the block's first coefficient
  for (std::uint64_t after = all.count; at < after;) {
    const std::uint64_t middle = (at + after) / 2;
    if (all.positions[middle] < block.position) {
      at = middle + 1;
    } else {
      after = middle;
    }
  }
  if (at == all.count || all.positions[at] >= end) return false;
  if (threadIdx.x < side) shared.present[threadIdx.x][0] = shared.present[threadIdx.x][1] = 0;
  __syncthreads();
  for (at += threadIdx.x; at < all.count && all.positions[at] < end; at += threads) {
    const auto place = static_cast<unsigned>(all.positions[at] - block.position);
    const unsigned row = place / columns;
    const unsigned column = place % columns;
    shared.values[row * side + column] = all.values[at];
    atomicOr(&shared.present[row][column / 32], 1U << column % 32);
  }
  __syncthreads();
  return true;
}

__device__ bool is_present(const SharedInverse& shared, unsigned row, unsigned column) {
  return (shared.present[row][column / 32] >> column % 32 & 1) != 0;
}

/// Numbers the products of each kind.
__device__ void number_products(unsigned rows, unsigned columns, SharedInverse& shared) {
  const unsigned parity = threadIdx.x / side;
  const unsigned column = threadIdx.x % side;
  if (threadIdx.x < kinds) shared.products[threadIdx.x] = 0;
  if (parity < 2) {
    unsigned row = parity;
    while (row < rows && !(column < columns && is_present(shared, row, column))) row += 2;
    shared.first[parity][column] = row < rows ? row : side;
  }
  __syncthreads();
  if (parity < 2 && shared.first[parity][column] < side) {
    unsigned number = 0;
    for (unsigned other = column % 2; other < columns; other += 2) {
      const unsigned mine = shared.first[parity][column];
      const unsigned theirs = shared.first[parity][other];
      if (theirs < mine || (theirs == mine && other < column)) ++number;
    }
    const unsigned kind = 2 * parity + column % 2;
    shared.column[kind][number] = column;
    atomicAdd(&shared.products[kind], 1U);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(threads, 4)
    add_inverse_kernel(Coefficients coefficients, BlockGrid grid, CosineTables tables, float weight,
                       float* __restrict__ sum) {
  SharedInverse& shared = *shared_memory<SharedInverse>();
  for (std::uint64_t index = blockIdx.x; index < grid.count(); index += gridDim.x) {
    const BlockGrid::Block block = grid.block(index);
    __syncthreads();  // the threads have left the block before
    if (!load_coefficients(coefficients, block, shared)) continue;
    const auto rows = static_cast<unsigned>(block.rows);
    const auto columns = static_cast<unsigned>(block.columns);
    const unsigned upper = rows - rows / 2;
    const unsigned left = columns - columns / 2;
    const float* const down = tables.down[block.rows * grid.down > grid.rows ? 1 : 0];
    const float* const across = tables.across[block.columns * grid.across > grid.columns ? 1 : 0];
    number_products(rows, columns, shared);

    for (unsigned n = threadIdx.x; n < kinds * quarter; n += threads) {
      const unsigned kind = n / quarter;
      const unsigned product = n % quarter / half;
      const unsigned i = n % half;
      if (product >= shared.products[kind] || i >= upper) continue;
      const unsigned column = shared.column[kind][product];
      float made = 0;
      for (unsigned k = kind / 2; k < rows; k += 2) {
        if (is_present(shared, k, column)) made += shared.values[k * side + column] * down[k * rows + i];
      }
      shared.down[n] = made;
    }
    __syncthreads();
    float* const waves = shared.values;
    for (unsigned n = threadIdx.x; n < kinds * quarter; n += threads) {
      const unsigned kind = n / quarter;
      const unsigned product = n % quarter / half;
      const unsigned j = n % half;
      if (product >= shared.products[kind] || j >= left) continue;
      waves[n] = across[j * columns + shared.column[kind][product]];
    }
    __syncthreads();

    float* const to = sum + block.row * grid.columns + block.column;
    for (unsigned n = threadIdx.x; n < quarter; n += threads) {
      const unsigned i = n / half;
      const unsigned j = n % half;
      if (i >= upper || j >= left) continue;
      float made[kinds] = {};
#pragma unroll
      for (unsigned kind = 0; kind < kinds; ++kind) {
        const unsigned begin = kind * quarter;
        for (unsigned product = 0; product < shared.products[kind]; ++product) {
          made[kind] += shared.down[begin + product * half + i] * waves[begin + product * half + j];
        }
      }
      const auto add = [&](unsigned row, float even, float odd) {
        float* const at = to + row * grid.columns;
        at[j] += weight * (even + odd);
        if (j < columns / 2) at[columns - 1 - j] += weight * (even - odd);
      };
      add(i, made[0] + made[2], made[1] + made[3]);
      if (i != rows - 1 - i) add(rows - 1 - i, made[0] - made[2], made[1] - made[3]);
    }
  }
}

void check_sides(const BlockGrid& grid) {
  ensure((grid.rows + grid.down - 1) / grid.down <= side && (grid.columns + grid.across - 1) / grid.across <= side,
         "a block's sides");
}

}  // namespace

Result<void> transform_blocks(const float* matrix, const BlockGrid& grid, const CosineTables& tables,
                              float* coefficients, StreamHandle stream) {
  if (grid.entries() == 0) return {};
  check_sides(grid);
  const Shape shape = {.blocks = blocks_for(grid.count()), .threads = threads, .shared_bytes = sizeof(Shared)};
  return launch("transform_blocks", transform_blocks_kernel, shape, stream, matrix, grid, tables, coefficients);
}

Result<void> add_inverse(const Coefficients& coefficients, const BlockGrid& grid, const CosineTables& tables,
                         float weight, float* sum, StreamHandle stream) {
  if (coefficients.count == 0) return {};
  check_sides(grid);
  const Shape shape = {.blocks = blocks_for(grid.count()), .threads = threads, .shared_bytes = sizeof(SharedInverse)};
  return launch("add_inverse", add_inverse_kernel, shape, stream, coefficients, grid, tables, weight, sum);
}

}  // namespace weir::cuda
