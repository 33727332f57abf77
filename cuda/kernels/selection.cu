#include "cuda/kernels/selection.hpp"

#include <string>
#include <vector>

#include "base/ensure.hpp"
#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/look_back.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_lanes;
constexpr unsigned of_lane = 16;  // entries
constexpr unsigned of_warp = of_lane * warp_lanes;
constexpr unsigned of_tile = of_warp * warps;

std::uint64_t tiles_of(std::uint64_t n) { return (n + of_tile - 1) / of_tile; }

/// The sums of entries above the cut and of those equal to it, for look_back(), and the next tile to be taken.
struct Tiles {
  TileSum* above;
  TileSum* ties;
  unsigned long long* next;
};

/// What a block shares.
struct Shared {
  std::uint32_t tile;  ///< of all
  std::uint32_t above[warps];
  std::uint32_t ties[warps];
  std::uint32_t above_before;
  std::uint32_t ties_before;
};

/// What is taken from a tensor.
struct Take {
  From from;
  const Cut* cut = nullptr;  ///< null: `given`
  Cut given;
  Selection to;
};

__device__ std::uint32_t count_of(unsigned lanes) { return static_cast<std::uint32_t>(__popc(lanes)); }
__device__ unsigned lanes_before() { return (1U << lane_of_thread()) - 1; }

/// Finds where the entries of each warp of a tile go: `at` becomes the entries above the cut, `ties_at` those equal to
/// it, in all warps before. `first`: the first tile of the tile's tensor. All threads of the block call it.
__device__ void find_places(const Tiles& tiles, std::uint32_t first, bool counts_ties, Shared* shared,
                            std::uint32_t& at, std::uint32_t& ties_at) {
  const unsigned warp = threadIdx.x / warp_lanes;
  __syncthreads();
  std::uint32_t above_all = 0;
  std::uint32_t ties_all = 0;
  at = 0;
  ties_at = 0;
  for (unsigned i = 0; i < warps; ++i) {
    if (i == warp) at = above_all;
    if (i == warp) ties_at = ties_all;
    above_all += shared->above[i];
    ties_all += shared->ties[i];
  }
  if (warp == 0) {
    const std::uint32_t before = look_back(tiles.above + first, shared->tile - first, above_all);
    if (lane_of_thread() == 0) shared->above_before = before;
  }
  if (warp == 1) {
    const std::uint32_t before = counts_ties ? look_back(tiles.ties + first, shared->tile - first, ties_all) : 0;
    if (lane_of_thread() == 0) shared->ties_before = before;
  }
  __syncthreads();
  at += shared->above_before;
  ties_at += shared->ties_before;
}

__global__ void take_kernel(Batch<Take> batch, Tiles tiles) {
  auto* const shared = shared_memory<Shared>();
  const unsigned warp = threadIdx.x / warp_lanes;
  const unsigned lane = lane_of_thread();
  for (;;) {
    if (threadIdx.x == 0) shared->tile = static_cast<std::uint32_t>(atomicAdd(tiles.next, 1ULL));
    __syncthreads();
    const std::uint32_t tile = shared->tile;
    if (tile >= batch.tiles()) break;
    const unsigned holder = batch.holder(tile);
    const std::uint32_t first = batch.first_tile(holder);
    const auto& [from, cut_at, given, to] = batch.of[holder];
    Cut cut = cut_at != nullptr ? *cut_at : given;
    if (cut.magnitude == 0) cut = {1, Cut::all};
    const bool counts_ties = cut.ties != Cut::all;
    const std::uint32_t least = counts_ties ? cut.magnitude + 1 : cut.magnitude;
    const std::uint64_t start = std::uint64_t{tile - first} * of_tile + warp * of_warp;
    float x[of_lane];
#pragma unroll
    for (unsigned k = 0; k < of_lane; ++k) {
      const std::uint64_t i = start + warp_lanes * k + lane;
      x[k] = i < from.n ? from.values[i] : 0.0F;
    }
    std::uint32_t above = 0;
    std::uint32_t ties = 0;
#pragma unroll
    for (unsigned k = 0; k < of_lane; ++k) {
      above += count_of(__ballot_sync(all_lanes, magnitude(x[k]) >= least));
      if (counts_ties) ties += count_of(__ballot_sync(all_lanes, magnitude(x[k]) == cut.magnitude));
    }
    if (lane == 0) {
      shared->above[warp] = above;
      shared->ties[warp] = ties;
    }
    std::uint32_t at = 0;
    std::uint32_t ties_at = 0;
    find_places(tiles, first, counts_ties, shared, at, ties_at);
    if (above + ties > 0) {
#pragma unroll
      for (unsigned k = 0; k < of_lane; ++k) {
        const bool is_above = magnitude(x[k]) >= least;
        const bool is_tie = counts_ties && magnitude(x[k]) == cut.magnitude;
        const unsigned all_above = __ballot_sync(all_lanes, is_above);
        const unsigned all_ties = __ballot_sync(all_lanes, is_tie);
        const std::uint32_t tie = ties_at + count_of(all_ties & lanes_before());
        const std::uint32_t place = at + count_of(all_above & lanes_before()) + (tie < cut.ties ? tie : cut.ties);
        if ((is_above || (is_tie && tie < cut.ties)) && place < to.limit) {
          const std::uint64_t i = start + warp_lanes * k + lane;
          to.positions[place] = from.positions != nullptr ? from.positions[i] : static_cast<std::uint32_t>(i);
          to.values[place] = x[k];
        }
        at += count_of(all_above);
        ties_at += count_of(all_ties);
      }
    }
    const bool is_last = tile + 1 == batch.tile_ends[holder];
    if (is_last && threadIdx.x == threads - 1) *to.count = at + (ties_at < cut.ties ? ties_at : cut.ties);
  }
}

Result<void> launch_take(const char* name, std::span<const Take> tensors, const PlaceScratch& scratch,
                         StreamHandle stream) {
  for (const Take& tensor : tensors) ensure(tensor.from.n <= Cut::all, "entries that 32 bits count");
  return in_batches(
      tensors, [](const Take& tensor) { return tiles_of(tensor.from.n); },
      [&](const Batch<Take>& batch) -> Result<void> {
        const std::uint64_t count = batch.tiles();
        const auto started = check(cudaMemsetAsync(scratch.at, 0, (2 * count + 1) * sizeof(TileSum), stream),
                                   std::string("starting ") + name);
        if (!started) return started;
        auto* const sums = reinterpret_cast<TileSum*>(scratch.at);
        const Tiles tiles{sums, sums + count, sums + 2 * count};
        const Shape shape = {.blocks = blocks_for(count), .threads = threads, .shared_bytes = sizeof(Shared)};
        return launch(name, take_kernel, shape, stream, batch, tiles);
      });
}

struct Add {
  struct Loaded {
    std::uint32_t at;
    float value;
    float sum;
  };
  __device__ static Loaded load(const Entries& of, std::uint64_t i) {
    const std::uint32_t at = of.positions[i];
    return {at, of.values[i], of.to[at]};
  }
  __device__ static float store(const Entries& of, std::uint64_t, const Loaded& it) {
    return of.to[it.at] = it.sum + of.weight * it.value;
  }
};

struct Clear {
  using Loaded = std::uint32_t;
  __device__ static std::uint32_t load(const Entries& of, std::uint64_t i) { return of.positions[i]; }
  __device__ static float store(const Entries& of, std::uint64_t, std::uint32_t at) { return of.to[at] = 0; }
};

}  // namespace

std::size_t PlaceScratch::bytes(std::uint64_t n) { return (2 * tiles_of(n) + 1) * sizeof(TileSum); }

Result<void> collect(const float* values, std::uint64_t n, std::uint32_t least, const Selection& to,
                     const PlaceScratch& scratch, StreamHandle stream) {
  const Take all{.from = {values, n}, .given = {least, Cut::all}, .to = to};
  return launch_take("collect", std::span(&all, 1), scratch, stream);
}

Result<void> take(std::span<const Taken> tensors, const PlaceScratch& scratch, StreamHandle stream) {
  std::vector<Take> all;
  for (const Taken& tensor : tensors) all.push_back({tensor.from, tensor.cut, {}, tensor.to});
  return launch_take("take", all, scratch, stream);
}

Result<void> add_selection(std::span<const Entries> selections, StreamHandle stream) {
  return launch_each<Add, NoteNothing>("add_selection", selections, stream);
}

Result<void> clear_selection(std::span<const Entries> selections, StreamHandle stream) {
  return launch_each<Clear, NoteNothing>("clear_selection", selections, stream);
}

}  // namespace weir::cuda
