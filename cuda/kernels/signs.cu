#include "cuda/kernels/signs.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/kernels/runs.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// A warp works on this many entries at a time: 32 words of bits, of which each lane holds one.
constexpr unsigned tile = 1024;
constexpr unsigned unroll = 8;  // loads under way per lane

/// How many blocks of a kernel that tosses coins, or that adds up, a multiprocessor has registers for.
constexpr unsigned coin_blocks = 4;
constexpr unsigned sum_blocks = 4;

/// Writes the bits of a tile of `size` entries. `word` holds those of the entries 32 * lane, 32 * lane + 1, ... Goes
/// byte by byte, because a payload starts anywhere; a warp's bytes are consecutive.
__device__ void store_bits(unsigned word, unsigned size, std::byte* bits) {
  for (unsigned pass = 0; pass < 4; ++pass) {
    const unsigned at = warp_lanes * pass + lane_of_thread();
    const unsigned from = __shfl_sync(all_lanes, word, static_cast<int>(at / 4));
    if (at < (size + 7) / 8) bits[at] = static_cast<std::byte>(from >> 8 * (at % 4) & 0xFF);
  }
}

/// The coins of the 32 entries from `entry`, a multiple of 16, on: the low halves of two random words.
__device__ unsigned coins_of_word(const RandomKey& coins, std::uint64_t entry) {
  const unsigned lane = lane_of_thread();
  const std::uint32_t word = random_word(coins, entry / 16 + lane / 16);
  return __ballot_sync(all_lanes, (word >> lane % 16 & 1) != 0);
}

__global__ void __launch_bounds__(shape_threads, coin_blocks) write_votes_kernel(Batch<CodeToWrite> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const unsigned lane = lane_of_thread();
  std::uint32_t largest = 0;
  for (std::uint64_t start = blocks.warp() * tile; start < of.n; start += blocks.warps() * tile) {
    const unsigned size = at_most(of.n - start, tile);
    unsigned mine = 0;
    for (unsigned base = 0; base < warp_lanes; base += unroll) {
      float x[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        x[k] = i < size ? of.values[start + i] : 0.0F;
      }
      std::uint32_t least = ~0U;
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const std::uint32_t here = magnitude(x[k]);
        largest = here > largest ? here : largest;
        least = here < least ? here : least;
        const unsigned word = __ballot_sync(all_lanes, x[k] < 0);
        if (lane == base + k) mine = word;
      }
      if (!__any_sync(all_lanes, least == 0)) continue;
#pragma unroll 1
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        const unsigned zeros = __ballot_sync(all_lanes, i < size && magnitude(of.values[start + i]) == 0);
        if (zeros == 0) continue;
        const unsigned word = zeros & coins_of_word(of.key, start + warp_lanes * (base + k));
        if (lane == base + k) mine |= word;
      }
    }
    store_bits(mine, size, of.code + start / 8);
  }
  raise(&of.report->largest, largest);
}

// The sums are added up in the order of the CPU: eight sums of every eighth entry of a block, these in their order, the
// blocks of a run, and the runs. Eight lanes take a block, so a warp takes four.

constexpr unsigned sum_block = 4096;

__global__ void __launch_bounds__(shape_threads, sum_blocks) write_signs_kernel(Batch<SignsToWrite> batch) {
  const auto [of, grid] = batch.of_this_block();
  const unsigned team = team_of_warp();
  const unsigned lane = lane_of_team();
  const std::uint64_t blocks = sign_sum_parts(of.n);
  std::uint32_t largest = 0;
  // All lanes of a warp go around as often, because the votes are of all; a team without a block has no entries.
  for (std::uint64_t first = grid.warp() * teams_of_warp; first < blocks; first += grid.warps() * teams_of_warp) {
    const std::uint64_t block = first + team;
    const std::uint64_t start = block * sum_block;
    const unsigned size = start < of.n ? at_most(of.n - start, sum_block) : 0;
    const unsigned longest = at_most(of.n - first * sum_block, sum_block);
    double positive = 0;
    double negative = 0;
    unsigned negatives = 0;
    for_entries_of_lane(of.values + start, size, longest, [&](const float* x, unsigned base) {
      unsigned votes = 0;  // of all teams for the lane's eight entries
#pragma unroll
      for (unsigned k = 0; k < team_lanes; ++k) {
        const std::uint32_t here = magnitude(x[k]);
        largest = here > largest ? here : largest;
        const double value = x[k];
        positive += x[k] > 0 ? value : 0;
        negative += x[k] < 0 ? value : 0;
        const unsigned of_all = __ballot_sync(all_lanes, x[k] < 0);
        if (lane == k) votes = of_all;
      }
      const unsigned mine = votes >> team_lanes * team & 0xFF;
      negatives += static_cast<unsigned>(__popc(mine));
      if (base + team_lanes * lane < size) of.bits[start / 8 + base / 8 + lane] = static_cast<std::byte>(mine);
    });
    positive = sum_in_order(positive);
    negative = sum_in_order(negative);
    for (unsigned with = 1; with < team_lanes; with *= 2) {
      negatives += __shfl_xor_sync(all_lanes, negatives, static_cast<int>(with));
    }
    if (lane == 0 && block < blocks) of.parts[block] = {positive, negative, negatives};
  }
  raise(&of.report->largest, largest);
}

/// One block for each tensor.
__global__ void __launch_bounds__(runs_threads, 1) add_parts_kernel(Batch<SignsToWrite> batch) {
  const SignsToWrite of = batch.of_this_block().tensor;
  const SignSums all = sum_of_runs(of.parts, sign_sum_parts(of.n), [](SignSums& to, const SignSums& from) {
    to.positive += from.positive;
    to.negative += from.negative;
    to.negatives += from.negatives;
  });
  if (threadIdx.x == 0) *of.sums = all;
}

__global__ void add_by_sign_kernel(Batch<SignsToAdd> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const std::byte* const __restrict__ bits = of.bits;
  float* const __restrict__ sum = of.sum;
  const unsigned lane = lane_of_thread();
  for (std::uint64_t start = blocks.warp() * tile; start < of.n; start += blocks.warps() * tile) {
    const unsigned size = at_most(of.n - start, tile);
    for (unsigned base = 0; base < warp_lanes; base += unroll) {
      float x[unroll];
      unsigned byte[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        x[k] = i < size ? sum[start + i] : 0.0F;
        byte[k] = i < size ? static_cast<unsigned>(bits[(start + i) / 8]) : 0;
      }
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        if (i < size) sum[start + i] = x[k] + ((byte[k] >> lane % 8 & 1) != 0 ? of.negative : of.positive);
      }
    }
  }
}

__global__ void take_majority_kernel(Batch<VotesToCount> batch, float least) {
  const auto [of, blocks] = batch.of_this_block();
  float* const __restrict__ values = of.values;
  const unsigned lane = lane_of_thread();
  for (std::uint64_t start = blocks.warp() * tile; start < of.n; start += blocks.warps() * tile) {
    const unsigned size = at_most(of.n - start, tile);
    for (unsigned base = 0; base < warp_lanes; base += unroll) {
      float x[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        x[k] = i < size ? values[start + i] : 0.0F;
      }
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        const bool tied = i < size && fabsf(x[k]) < least;
        bool below = (__float_as_uint(x[k]) >> 31) != 0;
        if (__any_sync(all_lanes, tied)) {
          const unsigned tosses = coins_of_word(of.coins, start + warp_lanes * (base + k));
          if (tied) below = (tosses >> lane & 1) != 0;
        }
        if (i < size) values[start + i] = below ? -1.0F : 1.0F;
      }
    }
  }
}

}  // namespace

Result<void> write_votes(std::span<const CodeToWrite> tensors, StreamHandle stream) {
  const auto shape = [](const CodeToWrite& of) { return shape_for(of.n, tile / warp_lanes, coin_blocks); };
  return launch_blocks("write_votes", write_votes_kernel, tensors, shape, stream);
}

Result<void> write_signs(std::span<const SignsToWrite> tensors, StreamHandle stream) {
  const auto shape = [](const SignsToWrite& of) { return shape_for(of.n, sum_block / team_lanes, sum_blocks); };
  const auto one_block = [](const SignsToWrite&) { return shape_for_runs<SignSums>(); };
  auto written = launch_blocks("write_signs", write_signs_kernel, tensors, shape, stream);
  if (!written) return written;
  return launch_blocks("write_signs (sums)", add_parts_kernel, tensors, one_block, stream);
}

Result<void> add_by_sign(std::span<const SignsToAdd> tensors, StreamHandle stream) {
  const auto shape = [](const SignsToAdd& of) { return shape_for(of.n, tile / warp_lanes); };
  return launch_blocks("add_by_sign", add_by_sign_kernel, tensors, shape, stream);
}

Result<void> take_majority(float least, std::span<const VotesToCount> tensors, StreamHandle stream) {
  const auto shape = [](const VotesToCount& of) { return shape_for(of.n, tile / warp_lanes); };
  return launch_blocks("take_majority", take_majority_kernel, tensors, shape, stream, least);
}

}  // namespace weir::cuda
