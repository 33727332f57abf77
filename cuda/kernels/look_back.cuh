#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/device.cuh"

namespace weir::cuda {

// Running sums over tiles in one pass, by decoupled look-back (Merrill & Garland 2016). A tile publishes its own sum;
// then it adds up those of the tiles before, back to one that knows the sum of all up to itself, and publishes that,
// too. Tiles must be taken in the order of their numbers by blocks that run, so that nobody waits for one that has not
// begun. The sums are integers, so the order of the additions does not matter.

/// What a tile has published: the sum in the lower half, how much that is of in the upper one. Zero at first.
using TileSum = unsigned long long;

inline constexpr TileSum tile_alone = TileSum{1} << 32;
inline constexpr TileSum tile_and_before = TileSum{2} << 32;

__device__ inline void publish(TileSum* at, TileSum sum) { *static_cast<volatile TileSum*>(at) = sum; }

/// Publishes `own`, the sum of `tile`, and returns the sum of the tiles before. A whole warp calls it; all its lanes
/// get the result.
__device__ inline std::uint32_t look_back(TileSum* sums, std::uint64_t tile, std::uint32_t own) {
  const unsigned lane = lane_of_thread();
  if (lane == 0) publish(sums + tile, (tile == 0 ? tile_and_before : tile_alone) | own);
  std::uint32_t before = 0;
  for (std::uint64_t end = tile; end > 0; end -= warp_lanes) {  // lane l asks tile end - 1 - l; before the first is 0
    TileSum sum = tile_and_before;
    if (lane < end) sum = *static_cast<volatile TileSum*>(sums + end - 1 - lane);
    while (__any_sync(all_lanes, sum == 0)) {
      __nanosleep(20);
      if (sum == 0) sum = *static_cast<volatile TileSum*>(sums + end - 1 - lane);
    }
    const unsigned known = __ballot_sync(all_lanes, sum >= tile_and_before);
    const unsigned counted = known == 0 ? warp_lanes : static_cast<unsigned>(__ffs(static_cast<int>(known)));
    before += __reduce_add_sync(all_lanes, lane < counted ? static_cast<std::uint32_t>(sum) : 0);
    if (known != 0) break;
  }
  if (lane == 0 && tile > 0) publish(sums + tile, tile_and_before | static_cast<std::uint32_t>(before + own));
  return before;
}

}  // namespace weir::cuda
