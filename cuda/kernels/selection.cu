#include "cuda/kernels/selection.hpp"

#include "base/ensure.hpp"
#include "cuda/kernels/each.cuh"
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
  unsigned long long tile;
  std::uint32_t above[warps];
  std::uint32_t ties[warps];
  std::uint32_t above_before;
  std::uint32_t ties_before;
};

/// What entries are taken from, and what is cleared where they are taken.
struct From {
  const float* values = nullptr;
  const std::uint32_t* positions = nullptr;  ///< null: those of the values
  float* velocity = nullptr;
  float* momentum = nullptr;
};

__device__ std::uint32_t count_of(unsigned lanes) { return static_cast<std::uint32_t>(__popc(lanes)); }
__device__ unsigned lanes_before() { return (1U << lane_of_thread()) - 1; }

/// Finds where the entries of each warp of the tile go: `at` becomes the entries above the cut, `ties_at` those equal
/// to it, in all warps before. All threads of the block call it.
__device__ void find_places(const Tiles& tiles, bool counts_ties, Shared* shared, std::uint32_t& at,
                            std::uint32_t& ties_at) {
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
    const std::uint32_t before = look_back(tiles.above, shared->tile, above_all);
    if (lane_of_thread() == 0) shared->above_before = before;
  }
  if (warp == 1) {
    const std::uint32_t before = counts_ties ? look_back(tiles.ties, shared->tile, ties_all) : 0;
    if (lane_of_thread() == 0) shared->ties_before = before;
  }
  __syncthreads();
  at += shared->above_before;
  ties_at += shared->ties_before;
}

template <bool clears>
__global__ void take_kernel(From from, std::uint64_t n, const Cut* cut_at, Cut given, Selection to, Tiles tiles) {
  Cut cut = cut_at != nullptr ? *cut_at : given;
  if (cut.magnitude == 0) cut = {1, Cut::all};
  const bool counts_ties = cut.ties != Cut::all;
  const std::uint32_t least = counts_ties ? cut.magnitude + 1 : cut.magnitude;
  auto* const shared = shared_memory<Shared>();
  const unsigned warp = threadIdx.x / warp_lanes;
  const unsigned lane = lane_of_thread();
  std::uint32_t largest = 0;
  for (;;) {
    if (threadIdx.x == 0) shared->tile = atomicAdd(tiles.next, 1ULL);
    __syncthreads();
    const std::uint64_t start = shared->tile * of_tile + warp * of_warp;
    if (shared->tile * of_tile >= n) break;
    const bool is_last = (shared->tile + 1) * of_tile >= n;
    float x[of_lane];
#pragma unroll
    for (unsigned k = 0; k < of_lane; ++k) {
      const std::uint64_t i = start + warp_lanes * k + lane;
      x[k] = i < n ? from.values[i] : 0.0F;
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
    find_places(tiles, counts_ties, shared, at, ties_at);
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
          largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
          if constexpr (clears) {
            from.velocity[i] = 0;
            if (from.momentum != nullptr) from.momentum[i] = 0;
          }
        }
        at += count_of(all_above);
        ties_at += count_of(all_ties);
      }
    }
    if (is_last && threadIdx.x == threads - 1) {
      to.selected->count = at + (ties_at < cut.ties ? ties_at : cut.ties);
    }
  }
  raise(&to.selected->largest, largest);
}

template <bool clears>
Result<void> launch_take(const char* name, const From& from, std::uint64_t n, const Cut* cut, const Cut& given,
                         const Selection& to, const PlaceScratch& scratch, StreamHandle stream) {
  if (n == 0) return {};
  ensure(n <= Cut::all, "entries that 32 bits count");
  const auto started =
      check(cudaMemsetAsync(scratch.at, 0, PlaceScratch::bytes(n), stream), std::string("starting ") + name);
  if (!started) return started;
  auto* const sums = reinterpret_cast<TileSum*>(scratch.at);
  const std::uint64_t count = tiles_of(n);
  const Tiles tiles{sums, sums + count, sums + 2 * count};
  const Shape shape = {.blocks = blocks_for(count), .threads = threads, .shared_bytes = sizeof(Shared)};
  return launch(name, take_kernel<clears>, shape, stream, from, n, cut, given, to, tiles);
}

__global__ void add_selection_kernel(float weight, const std::uint32_t* __restrict__ positions,
                                     const float* __restrict__ values, std::uint64_t n, float* __restrict__ to) {
  struct Entry {
    std::uint32_t at;
    float value;
    float sum;
  };
  for_each_tile(
      n, Entry{},
      [&](std::uint64_t i) {
        const std::uint32_t at = positions[i];
        return Entry{at, values[i], to[at]};
      },
      [&](std::uint64_t, const Entry& it, bool is_entry) {
        if (is_entry) to[it.at] = it.sum + weight * it.value;
      });
}

__global__ void clear_selection_kernel(const std::uint32_t* __restrict__ positions, std::uint64_t n,
                                       float* __restrict__ to) {
  for_each_tile(
      n, 0U, [&](std::uint64_t i) { return positions[i]; },
      [&](std::uint64_t, std::uint32_t at, bool is_entry) {
        if (is_entry) to[at] = 0;
      });
}

}  // namespace

std::size_t PlaceScratch::bytes(std::uint64_t n) { return (2 * tiles_of(n) + 1) * sizeof(TileSum); }

Result<void> collect(const float* values, std::uint64_t n, std::uint32_t least, const Selection& to,
                     const PlaceScratch& scratch, StreamHandle stream) {
  return launch_take<false>("collect", {.values = values}, n, nullptr, {least, Cut::all}, to, scratch, stream);
}

Result<void> take(const float* values, std::uint64_t n, const Cut* cut, const Selection& to,
                  const PlaceScratch& scratch, StreamHandle stream) {
  return launch_take<false>("take", {.values = values}, n, cut, {}, to, scratch, stream);
}

Result<void> take_and_clear(float* velocity, float* momentum, std::uint64_t n, const Cut* cut, const Selection& to,
                            const PlaceScratch& scratch, StreamHandle stream) {
  const From from{.values = velocity, .velocity = velocity, .momentum = momentum};
  return launch_take<true>("take_and_clear", from, n, cut, {}, to, scratch, stream);
}

Result<void> trim(const std::uint32_t* positions, const float* values, std::uint64_t n, const Cut* cut,
                  const Selection& to, const PlaceScratch& scratch, StreamHandle stream) {
  return launch_take<false>("trim", {.values = values, .positions = positions}, n, cut, {}, to, scratch, stream);
}

Result<void> add_selection(float weight, const std::uint32_t* positions, const float* values, std::uint64_t n,
                           float* to, StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_selection", add_selection_kernel, shape_for_each(n), stream, weight, positions, values, n, to);
}

Result<void> clear_selection(const std::uint32_t* positions, std::uint64_t n, float* to, StreamHandle stream) {
  if (n == 0) return {};
  return launch("clear_selection", clear_selection_kernel, shape_for_each(n), stream, positions, n, to);
}

}  // namespace weir::cuda
