#include "cuda/kernels/look_back.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/launch.cuh"
#include "cuda/memory.hpp"

// The emulator runs blocks one after the other, so that in its kernels each tile finds the one before complete. Here
// they are not: a warp looks back at sums as they are on a device while other blocks are under way.

namespace weir::cuda {
namespace {

__global__ void look_back_kernel(TileSum* sums, std::uint64_t tile, std::uint32_t own, std::uint32_t* before) {
  before[threadIdx.x] = look_back(sums, tile, own);
}

/// Publishes the sums that come to be while a tile waits for them.
__global__ void look_back_and_publish_kernel(TileSum* sums, std::uint64_t tile, std::uint32_t* before) {
  if (threadIdx.x / warp_lanes == 0) {
    before[threadIdx.x] = look_back(sums, tile, 7);
    return;
  }
  if (threadIdx.x != warp_lanes) return;
  for (std::uint64_t late = 0; late < tile; ++late) {
    __nanosleep(20);
    publish(sums + late, (late == 0 ? tile_and_before : tile_alone) | 3);
  }
}

template <class T>
std::vector<T> read(const Memory& from) {
  std::vector<T> values(from.size() / sizeof(T));
  from.copy_to_host(std::as_writable_bytes(std::span(values)), nullptr).value();
  return values;
}

/// Tile t has the sum t + 1; the sums of all before are known up to tile `known`.
void expect_found(std::uint64_t tile, std::uint64_t known) {
  std::vector<TileSum> sums(tile + 1);
  for (std::uint64_t t = 0; t < tile; ++t) {
    sums[t] = t <= known ? tile_and_before | (t + 1) * (t + 2) / 2 : tile_alone | (t + 1);
  }
  const auto at = Memory::allocate(sums.size() * sizeof(TileSum)).value();
  at.copy_from_host(std::as_bytes(std::span(sums)), nullptr).value();
  const auto before = Memory::allocate(warp_lanes * sizeof(std::uint32_t)).value();
  launch("look_back", look_back_kernel, {.blocks = 1, .threads = warp_lanes}, nullptr,
         reinterpret_cast<TileSum*>(at.data()), tile, static_cast<std::uint32_t>(tile + 1),
         reinterpret_cast<std::uint32_t*>(before.data()))
      .value();
  for (const std::uint32_t found : read<std::uint32_t>(before)) EXPECT_EQ(found, tile * (tile + 1) / 2);
  EXPECT_EQ(read<TileSum>(at)[tile], tile_and_before | (tile + 1) * (tile + 2) / 2);
}

TEST(LookBack, AddsUpTilesBackToOneThatKnowsAllBefore) {
  for (const std::uint64_t tile : {0, 1, 2, 31, 32, 33, 64, 65, 200}) {
    for (const std::uint64_t known : {0, 1, 30, 31, 32, 33, 168, 199}) {
      SCOPED_TRACE(std::to_string(tile) + " back to " + std::to_string(known));
      expect_found(tile, known);
    }
  }
}

TEST(LookBack, WaitsForTilesThatHaveNotPublished) {
  constexpr std::uint64_t tile = 70;
  const auto sums = Memory::allocate((tile + 1) * sizeof(TileSum)).value();
  sums.fill(std::byte{0}, nullptr).value();
  const auto before = Memory::allocate(warp_lanes * sizeof(std::uint32_t)).value();
  launch("look_back", look_back_and_publish_kernel, {.blocks = 1, .threads = 2 * warp_lanes}, nullptr,
         reinterpret_cast<TileSum*>(sums.data()), tile, reinterpret_cast<std::uint32_t*>(before.data()))
      .value();
  for (const std::uint32_t found : read<std::uint32_t>(before)) EXPECT_EQ(found, 3 * tile);
  EXPECT_EQ(read<TileSum>(sums)[tile], tile_and_before | (3 * tile + 7));
}

}  // namespace
}  // namespace weir::cuda
