#include "cuda/kernels/low_rank.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

// Products, in the order of the CPU's: sixteen sums of every sixteenth entry of a row, and these in a fixed tree.

constexpr unsigned together = 4;  ///< vectors that an entry of the matrix is multiplied with while it is at hand
constexpr unsigned row_lanes = 16;
constexpr unsigned loads = 32;             ///< of entries of the matrix that a thread has under way
constexpr unsigned threads = 64;           ///< few, so that few rows are spread over many multiprocessors
constexpr std::uint64_t many_rows = 8192;  ///< so many keep a device busy even if sixteen lanes take several at a time
constexpr unsigned of_many_rows = 4;

/// The rows that a warp takes at a time if sixteen lanes take `rows` of them.
constexpr unsigned rows_of_warp(unsigned rows) { return rows * (warp_lanes / row_lanes); }

/// Sixteen lanes take `rows` rows at a time, so that an entry of a vector that is loaded once serves all of these.
template <unsigned rows>
__global__ void multiply_kernel(const float* __restrict__ matrix, MatrixShape shape, const float* __restrict__ right,
                                std::uint64_t rank, float* __restrict__ left) {
  constexpr unsigned steps = loads / rows;
  const unsigned lane = lane_of_thread() % row_lanes;
  for (std::uint64_t first = warp_of_grid() * rows_of_warp(rows); first < shape.rows;
       first += warps_of_grid() * rows_of_warp(rows)) {
    const std::uint64_t i = first + lane_of_thread() / row_lanes * rows;
    // Beyond the last row it is the last one again: all lanes of the warp go around as often.
    const float* from[rows];
#pragma unroll
    for (unsigned r = 0; r < rows; ++r) {
      from[r] = matrix + (i + r < shape.rows ? i + r : shape.rows - 1) * shape.columns;
    }
    for (std::uint64_t j = 0; j < rank; j += together) {
      const unsigned count = at_most(rank - j, together);
      float sums[together][rows] = {};
      // Zeros beyond the last column: no sum is a negative zero, which alone would be changed by adding them.
      for (std::uint64_t base = lane; base < shape.columns; base += row_lanes * steps) {
        const unsigned rest = at_most(shape.columns - base, row_lanes * steps);
        float x[steps][rows];
#pragma unroll
        for (unsigned u = 0; u < steps; ++u) {
#pragma unroll
          for (unsigned r = 0; r < rows; ++r) x[u][r] = row_lanes * u < rest ? from[r][base + row_lanes * u] : 0.0F;
        }
#pragma unroll
        for (unsigned v = 0; v < together; ++v) {
          if (v >= count) break;
          const float* const vector = right + (j + v) * shape.columns + base;
          float y[steps];
#pragma unroll
          for (unsigned u = 0; u < steps; ++u) y[u] = row_lanes * u < rest ? vector[row_lanes * u] : 0.0F;
#pragma unroll
          for (unsigned u = 0; u < steps; ++u) {
#pragma unroll
            for (unsigned r = 0; r < rows; ++r) sums[v][r] += x[u][r] * y[u];
          }
        }
      }
#pragma unroll
      for (unsigned v = 0; v < together; ++v) {
        if (v >= count) break;
#pragma unroll
        for (unsigned r = 0; r < rows; ++r) {
          float sum = sums[v][r];
          for (unsigned distance = row_lanes / 2; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(all_lanes, sum, static_cast<int>(distance));
          }
          if (lane == 0 && i + r < shape.rows) left[(j + v) * shape.rows + i + r] = sum;
        }
      }
    }
  }
}

// Products with the transposed: each column's sum runs from the first row to the last. A block takes a strip of columns
// and goes down a tile of rows at a time, which all its threads load; then a warp for each vector adds up the tile's
// products, a lane those of a column, while the next tile is under way.

constexpr unsigned strip_columns = warp_lanes;
constexpr unsigned strip_warps = 8;
constexpr unsigned strip_vectors = strip_warps;
constexpr unsigned strip_threads = strip_warps * warp_lanes;
constexpr unsigned tile_rows = strip_threads;

/// What the threads of a block share.
struct Tile {
  float left[strip_vectors][tile_rows];
  float entries[tile_rows][strip_columns];
};

/// What a thread loads of a tile: every eighth entry of a column, and of a row what the vectors have for it.
struct PartOfTile {
  float left[strip_vectors];
  float entries[tile_rows / strip_warps];
};

/// Loads the thread's part of a tile, from its first entries in the matrix and in the vectors, `length` apart.
/// The tile has `rows` rows, all of them if it is whole: zeros beyond these.
template <bool is_whole>
__device__ void load_part(const float* entry, std::uint64_t columns, const float* left, std::uint64_t length,
                          unsigned vectors, unsigned rows, PartOfTile& part) {
#pragma unroll
  for (unsigned u = 0; u < tile_rows / strip_warps; ++u, entry += strip_warps * columns) {
    part.entries[u] = is_whole || threadIdx.x / warp_lanes + strip_warps * u < rows ? *entry : 0.0F;
  }
#pragma unroll
  for (unsigned v = 0; v < strip_vectors; ++v, left += length) {
    part.left[v] = v < vectors && (is_whole || threadIdx.x < rows) ? *left : 0.0F;
  }
}

__device__ void store_part(const PartOfTile& part, Tile& tile) {
  float* const entry = &tile.entries[0][0] + threadIdx.x;
  float* const left = &tile.left[0][0] + threadIdx.x;
#pragma unroll
  for (unsigned u = 0; u < tile_rows / strip_warps; ++u) entry[u * strip_threads] = part.entries[u];
#pragma unroll
  for (unsigned v = 0; v < strip_vectors; ++v) left[v * tile_rows] = part.left[v];
}

/// Adds the products of the warp's vector and the lane's column to the sum of those above.
__device__ float add_products(const Tile& tile, unsigned rows, float sum) {
  const float* const left = tile.left[threadIdx.x / warp_lanes];
  const float* const entry = &tile.entries[0][0] + lane_of_thread();
  // Four at a time: the zeros beyond the last row change no sum, as none is a negative zero.
#pragma unroll 8
  for (unsigned i = 0; i < rows; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(left + i);
    sum += four.x * entry[i * strip_columns];
    sum += four.y * entry[(i + 1) * strip_columns];
    sum += four.z * entry[(i + 2) * strip_columns];
    sum += four.w * entry[(i + 3) * strip_columns];
  }
  return sum;
}

__global__ void __launch_bounds__(strip_threads, 3)
    multiply_transposed_kernel(const float* __restrict__ matrix, MatrixShape shape, const float* __restrict__ left,
                               std::uint64_t rank, std::uint64_t groups, std::uint64_t strips,
                               float* __restrict__ right) {
  Tile& tile = *shared_memory<Tile>();
  const unsigned warp = threadIdx.x / warp_lanes;
  for (std::uint64_t at = blockIdx.x; at < groups * strips; at += gridDim.x) {
    const std::uint64_t vector = at % groups * strip_vectors;
    const unsigned vectors = at_most(rank - vector, strip_vectors);
    const std::uint64_t column = at / groups * strip_columns + lane_of_thread();
    float sum = 0;
    // Lanes beyond the last column load the last.
    const float* entry = matrix + warp * shape.columns + (column < shape.columns ? column : shape.columns - 1);
    const float* factor = left + vector * shape.rows + threadIdx.x;
    unsigned before = 0;  // the rows of the tile that is in shared memory
    for (std::uint64_t first = 0; before > 0 || first < shape.rows; first += tile_rows) {
      const unsigned rows = first < shape.rows ? at_most(shape.rows - first, tile_rows) : 0;
      PartOfTile part;
      if (rows == tile_rows) {
        load_part<true>(entry, shape.columns, factor, shape.rows, vectors, rows, part);
      } else {
        load_part<false>(entry, shape.columns, factor, shape.rows, vectors, rows, part);
      }
      entry += tile_rows * shape.columns;
      factor += tile_rows;
      if (warp < vectors) sum = add_products(tile, before, sum);
      __syncthreads();
      store_part(part, tile);
      __syncthreads();
      before = rows;
    }
    if (warp < vectors && column < shape.columns) right[(vector + warp) * shape.columns + column] = sum;
  }
}

// Outer products. A warp takes a tile of the sum.

constexpr unsigned outer_rows = 4;
constexpr unsigned outer_steps = 4;  ///< columns of a lane, as far apart as there are lanes
constexpr unsigned outer_columns = outer_steps * warp_lanes;

__global__ void add_outer_products_kernel(const float* __restrict__ left, const float* __restrict__ right,
                                          std::uint64_t rank, MatrixShape shape, std::uint64_t strips,
                                          std::uint64_t tiles, float weight, float* __restrict__ sum) {
  for (std::uint64_t tile = warp_of_grid(); tile < tiles; tile += warps_of_grid()) {
    const std::uint64_t row = tile / strips * outer_rows;
    const std::uint64_t column = tile % strips * outer_columns + lane_of_thread();
    const unsigned rows = at_most(shape.rows - row, outer_rows);
    float* const to = sum + row * shape.columns + column;
    float x[outer_rows][outer_steps];
#pragma unroll
    for (unsigned r = 0; r < outer_rows; ++r) {
#pragma unroll
      for (unsigned s = 0; s < outer_steps; ++s) {
        const bool is_entry = r < rows && column + s * warp_lanes < shape.columns;
        x[r][s] = is_entry ? to[r * shape.columns + s * warp_lanes] : 0.0F;
      }
    }
    float products[outer_rows][outer_steps] = {};
    for (std::uint64_t j = 0; j < rank; ++j) {
      const float* const p = left + j * shape.rows + row;
      const float* const q = right + j * shape.columns + column;
      float of_column[outer_steps];
#pragma unroll
      for (unsigned s = 0; s < outer_steps; ++s) {
        of_column[s] = column + s * warp_lanes < shape.columns ? q[s * warp_lanes] : 0.0F;
      }
#pragma unroll
      for (unsigned r = 0; r < outer_rows; ++r) {
        const float of_row = r < rows ? p[r] : 0.0F;
#pragma unroll
        for (unsigned s = 0; s < outer_steps; ++s) products[r][s] += of_row * of_column[s];
      }
    }
#pragma unroll
    for (unsigned r = 0; r < outer_rows; ++r) {
#pragma unroll
      for (unsigned s = 0; s < outer_steps; ++s) {
        const bool is_entry = r < rows && column + s * warp_lanes < shape.columns;
        if (is_entry) to[r * shape.columns + s * warp_lanes] = x[r][s] + weight * products[r][s];
      }
    }
  }
}

}  // namespace

Result<void> multiply(const float* matrix, const MatrixShape& shape, const float* right, std::uint64_t rank,
                      float* left, StreamHandle stream) {
  if (shape.rows == 0 || rank == 0) return {};
  const bool are_many = shape.rows >= many_rows;
  const unsigned rows = threads / warp_lanes * rows_of_warp(are_many ? of_many_rows : 1);
  const Shape of_launch = {.blocks = blocks_for((shape.rows + rows - 1) / rows), .threads = threads};
  return launch("multiply", are_many ? multiply_kernel<of_many_rows> : multiply_kernel<1>, of_launch, stream, matrix,
                shape, right, rank, left);
}

Result<void> multiply_transposed(const float* matrix, const MatrixShape& shape, const float* left, std::uint64_t rank,
                                 float* right, StreamHandle stream) {
  if (shape.columns == 0 || rank == 0) return {};
  const std::uint64_t groups = (rank + strip_vectors - 1) / strip_vectors;
  const std::uint64_t strips = (shape.columns + strip_columns - 1) / strip_columns;
  const Shape of_launch = {
      .blocks = blocks_for(groups * strips), .threads = strip_threads, .shared_bytes = sizeof(Tile)};
  return launch("multiply_transposed", multiply_transposed_kernel, of_launch, stream, matrix, shape, left, rank, groups,
                strips, right);
}

Result<void> add_outer_products(const float* left, const float* right, std::uint64_t rank, const MatrixShape& shape,
                                float weight, float* sum, StreamHandle stream) {
  if (shape.rows * shape.columns == 0 || rank == 0) return {};
  const std::uint64_t strips = (shape.columns + outer_columns - 1) / outer_columns;
  const std::uint64_t tiles = (shape.rows + outer_rows - 1) / outer_rows * strips;
  return launch("add_outer_products", add_outer_products_kernel, shape_for(tiles * warp_lanes, 1), stream, left, right,
                rank, shape, strips, tiles, weight, sum);
}

}  // namespace weir::cuda
