#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"
#include "cuda/memory.hpp"

// That the emulated device computes what a device would, and that it notices what a device would punish.

namespace weir::cuda {
namespace {

using EmulatorDeathTest = testing::Test;

/// Runs a kernel in one block of `threads`, on an array of `entries` numbers that begin as zero, and returns the array.
template <class T>
std::vector<T> run(void (*kernel)(T*), unsigned threads, std::size_t entries, std::size_t shared_bytes = 0) {
  const auto memory = Memory::allocate(entries * sizeof(T)).value();
  std::vector<T> values(entries);
  memory.fill(std::byte{0}, nullptr).value();
  const Shape shape = {.blocks = 1, .threads = threads, .shared_bytes = shared_bytes};
  launch("of a test", kernel, shape, nullptr, reinterpret_cast<T*>(memory.data())).value();
  memory.copy_to_host(std::as_writable_bytes(std::span(values)), nullptr).value();
  return values;
}

__global__ void reverse(unsigned* out) {
  auto* shared = shared_memory<unsigned>();
  shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulator, BlockSharesMemoryAcrossABarrier) {
  const auto out = run(reverse, 256, 256, 1024);
  for (unsigned i = 0; i < 256; ++i) ASSERT_EQ(out[i], 255 - i);
}

__global__ void reverse_without_barrier(unsigned* out) {
  auto* shared = shared_memory<unsigned>();
  shared[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulator, MissingBarrierShowsAsMemoryThatNobodyWrote) {
  const auto out = run(reverse_without_barrier, 256, 256, 1024);
  EXPECT_GT(std::count(out.begin(), out.end(), ~0U), 0);
}

/// Right only as long as thread 0 comes before the others.
__global__ void first_writes(unsigned* out) {
  auto* shared = shared_memory<unsigned>();
  if (threadIdx.x == 0) shared[0] = 7;
  out[threadIdx.x] = shared[0];
}

TEST(Emulator, AnotherOrderShowsABarrierThatIsMissing) {
  const char* before = std::getenv("WEIR_CUDA_ORDER");
  if (before == nullptr) {
    EXPECT_EQ(run(first_writes, 64, 64, 4), std::vector<unsigned>(64, 7));
  } else {
    EXPECT_NE(run(first_writes, 64, 64, 4), std::vector<unsigned>(64, 7));
  }
}

__global__ void poisoned(float* out) { out[threadIdx.x] = shared_memory<float>()[threadIdx.x]; }

TEST(Emulator, SharedMemoryBeginsAsNaN) {
  for (const float value : run(poisoned, 32, 32, 128)) EXPECT_TRUE(std::isnan(value));
}

__global__ void warp_operations(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = lane;
  for (int with = 16; with > 0; with /= 2) sum += __shfl_xor_sync(all_lanes, sum, with);
  unsigned prefix = 1;
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const unsigned before = __shfl_up_sync(all_lanes, prefix, delta);
    if (lane >= delta) prefix += before;
  }
  const unsigned odd = __ballot_sync(all_lanes, lane % 2 == 1);
  const unsigned of_eight = __shfl_sync(all_lanes, lane, 3, 8);
  const unsigned next = __shfl_down_sync(all_lanes, lane, 1);
  const unsigned same = __match_any_sync(all_lanes, lane / 4);
  bool right = sum == 496 && prefix == lane + 1 && odd == 0xAAAAAAAA && of_eight == lane / 8 * 8 + 3;
  right = right && next == (lane == 31 ? 31 : lane + 1) && same == 0xFU << lane / 4 * 4;
  right = right && __reduce_max_sync(all_lanes, lane) == 31 && __reduce_add_sync(all_lanes, 2U) == 64 &&
          __reduce_min_sync(all_lanes, 4 - static_cast<int>(lane)) == -27;
  if (lane < 8) right = right && __reduce_or_sync(0xFF, 1U << lane) == 0xFF;
  right = right && __syncthreads_count(lane == 0) == 2 && __syncthreads_or(threadIdx.x == 40) != 0 &&
          __syncthreads_and(threadIdx.x != 40) == 0;
  out[threadIdx.x] = right;
}

TEST(Emulator, WarpOperationsGiveWhatCudaDefines) {
  EXPECT_EQ(run(warp_operations, 64, 64), std::vector<unsigned>(64, 1));
}

__global__ void count_up(unsigned* out) {
  atomicAdd(out, 1U);
  atomicMax(out + 1, threadIdx.x);
}

TEST(Emulator, AtomicsSeeAllThreads) { EXPECT_EQ(run(count_up, 1024, 2), (std::vector<unsigned>{1024, 1023})); }

__global__ void some_reach_a_barrier(unsigned*) {
  if (threadIdx.x < 16) __syncthreads();
}

__global__ void different_barriers(unsigned*) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(EmulatorDeathTest, BarrierThatNotAllThreadsReach) {
  EXPECT_DEATH(run(some_reach_a_barrier, 64, 1), "barrier at emulator_test.cpp:[0-9]+ is reached by 16 of 64 threads");
  EXPECT_DEATH(run(different_barriers, 64, 1), "wait at different barriers");
}

__global__ void lane_at_barrier(unsigned* out) {
  if (threadIdx.x == 5) __syncthreads();
  *out = __ballot_sync(all_lanes, 1);
  if (threadIdx.x != 5) __syncthreads();
}

__global__ void lane_that_ended(unsigned* out) {
  if (threadIdx.x == 5) return;
  *out = __ballot_sync(all_lanes, 1);
}

__global__ void other_mask(unsigned* out) { *out = __ballot_sync(threadIdx.x == 31 ? 0xF0000000U : all_lanes, 1); }

__global__ void not_in_mask(unsigned* out) { *out = __ballot_sync(0xFFFF, 1); }

__global__ void source_not_in_mask(unsigned* out) {
  if (threadIdx.x < 16) *out = __shfl_sync(0xFFFF, threadIdx.x, 20);
}

TEST(EmulatorDeathTest, WarpOperationWhoseLanesDoNotTakePart) {
  EXPECT_DEATH(run(lane_at_barrier, 32, 1), "__ballot_sync at emulator_test.cpp:[0-9]+: thread [0-9]+ waits for lanes");
  EXPECT_DEATH(run(lane_that_ended, 32, 1), "__ballot_sync at .*(has ended or never was|waits for lanes)");
  EXPECT_DEATH(run(other_mask, 32, 1), "with another mask");
  EXPECT_DEATH(run(not_in_mask, 32, 1), "does not name the lane");
  EXPECT_DEATH(run(source_not_in_mask, 32, 1), "reads from one that the mask does not name");
  EXPECT_DEATH(run(warp_operations, 40, 64), "has ended or never was");
}

__global__ void beyond_shared(unsigned*) { shared_memory<unsigned>()[threadIdx.x] = 1; }
__global__ void beyond_allocation(unsigned* out) { out[threadIdx.x] = 1; }

TEST(EmulatorDeathTest, WritesBeyondMemory) {
  EXPECT_DEATH(run(beyond_shared, 32, 1, 124), "beyond shared memory|use-after-poison");
  EXPECT_DEATH(run(beyond_allocation, 32, 31), "beyond the end of an allocation of 124 bytes|use-after-poison");
}

TEST(EmulatorDeathTest, CopiesThatAreWrong) {
  const auto memory = Memory::allocate(8).value();
  std::vector<std::byte> host(16);
  EXPECT_DEATH(cudaMemcpy(host.data(), memory.data(), 16, cudaMemcpyDeviceToHost), "leaves an allocation of 8");
  EXPECT_DEATH(cudaMemcpy(host.data(), memory.data(), 8, cudaMemcpyHostToDevice), "direction");
  EXPECT_DEATH(cudaFree(memory.data() + 4), "not the beginning of an allocation");
}

TEST(Emulator, LaunchThatCannotBeIsRefusedWithTheKernelsName) {
  const auto refused = launch("reverse", reverse, {.blocks = 1, .threads = 1025}, nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().context, "starting kernel reverse: invalid configuration argument");
}

}  // namespace
}  // namespace weir::cuda
