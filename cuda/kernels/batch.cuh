#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ensure.hpp"
#include "base/result.hpp"
#include "cuda/kernels/each.cuh"

namespace weir::cuda {

// Several tensors in one launch, so that small ones keep the device busy together.

/// As many as a launch takes: what a kernel is to know of them has room in the 4 KB of its parameters.
inline constexpr unsigned batch_max = 48;

/// The blocks of a grid that work on one of its tensors.
template <class One>
struct BlocksOfOne {
  One tensor;
  GridPart blocks;
};

/// What a kernel is to know of some tensors, one or more. Their tiles are numbered, one tensor's after the other's.
template <class One>
struct Batch {
  One of[batch_max];
  std::uint32_t tile_ends[batch_max];  ///< where each tensor's tiles end
  unsigned count = 0;

  __host__ __device__ std::uint32_t tiles() const { return tile_ends[count - 1]; }
  __device__ std::uint32_t first_tile(unsigned i) const { return i == 0 ? 0 : tile_ends[i - 1]; }

  /// Which tensor a tile is of.
  __device__ unsigned holder(std::uint32_t tile) const {
    unsigned first = 0;
    for (unsigned last = count - 1; first < last;) {
      const unsigned middle = (first + last) / 2;
      if (tile < tile_ends[middle]) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    return first;
  }

  /// Where tiles are blocks: the tensor that this block works on, and the blocks that do so.
  __device__ BlocksOfOne<One> of_this_block() const {
    const unsigned i = holder(blockIdx.x);
    const std::uint32_t first = first_tile(i);
    return {of[i], {blockIdx.x - first, tile_ends[i] - first}};
  }
};

/// Calls put(batch) for batches of all tensors that have tiles (tiles_of(one)), in their order.
template <class One, class TilesOf, class Put>
Result<void> in_batches(std::span<const One> all, const TilesOf& tiles_of, const Put& put) {
  static_assert(sizeof(Batch<One>) <= 4000, "a batch and what else a kernel needs within its parameters");
  Batch<One> batch;
  std::uint64_t tiles = 0;
  const auto put_all = [&]() -> Result<void> {
    if (batch.count == 0) return {};
    auto done = put(batch);
    batch.count = 0;
    tiles = 0;
    return done;
  };
  for (const One& one : all) {
    const std::uint64_t own = tiles_of(one);
    if (own == 0) continue;
    tiles += own;
    ensure(tiles <= ~std::uint32_t{0}, "tiles that 32 bits count");
    batch.of[batch.count] = one;
    batch.tile_ends[batch.count++] = static_cast<std::uint32_t>(tiles);
    if (batch.count < batch_max) continue;
    if (auto done = put_all(); !done) return done;
  }
  return put_all();
}

/// A loop over the entries of several tensors. An Of says which entries, of.n of them, and where they lie;
/// Loop::load(of, i) loads what an entry needs, Loop::store(of, i, loaded) stores what becomes of it, and a Note
/// (each.cuh) is told of the values stored: NoteBins in of.bins. A block takes neighbouring tiles, so that it seldom
/// goes from one tensor to the next.
template <class Loop, class Note, class Of>
__global__ void each_of_batch_kernel(Batch<Of> batch) {
  const std::uint64_t tiles = batch.tiles();
  const auto end = static_cast<std::uint32_t>(tiles * (blockIdx.x + 1) / gridDim.x);
  auto tile = static_cast<std::uint32_t>(tiles * blockIdx.x / gridDim.x);
  for (unsigned i = tile < end ? batch.holder(tile) : 0; tile < end; ++i) {
    const Of of = batch.of[i];
    const std::uint32_t first = batch.first_tile(i);
    Note note{};
    if constexpr (std::is_same_v<Note, NoteBins>) note.bins = of.bins;
    note.begin();
    for (; tile < end && tile < batch.tile_ends[i]; ++tile) {
      for_tile(
          tile - first, of.n, typename Loop::Loaded{}, [&](std::uint64_t at) { return Loop::load(of, at); },
          [&](std::uint64_t at, const typename Loop::Loaded& loaded, bool is_entry) {
            if (is_entry) note(Loop::store(of, at, loaded));
          });
    }
    note.end();
    __syncthreads();  // before the next one begins to note
  }
}

template <class Loop, class Note, class Of>
Result<void> launch_each(const char* name, std::span<const Of> tensors, StreamHandle stream) {
  return in_batches(
      tensors, [](const Of& of) { return each_tiles(of.n); },
      [&](const Batch<Of>& batch) {
        const Shape shape = {
            .blocks = blocks_for(batch.tiles()), .threads = each_threads, .shared_bytes = Note::shared_bytes};
        return launch(name, each_of_batch_kernel<Loop, Note, Of>, shape, stream, batch);
      });
}

/// Launches a kernel in which each tensor has the blocks that it would have alone, those of shape_of(tensor). The rest
/// of a shape is the same for all. The arguments follow the batch.
template <class Of, class... Parameters, class ShapeOf, class... Arguments>
Result<void> launch_blocks(const char* name, void (*kernel)(Batch<Of>, Parameters...), std::span<const Of> tensors,
                           const ShapeOf& shape_of, StreamHandle stream, const Arguments&... arguments) {
  return in_batches(
      tensors, [&](const Of& of) { return shape_of(of).blocks; },
      [&](const Batch<Of>& batch) {
        Shape shape = shape_of(batch.of[0]);
        shape.blocks = batch.tiles();
        return launch(name, kernel, shape, stream, batch, arguments...);
      });
}

}  // namespace weir::cuda
