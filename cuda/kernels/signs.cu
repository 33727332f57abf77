#include "cuda/kernels/signs.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/kernels/runs.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// A warp works on this many entries at a time: 32 words of bits, of which each lane holds one.
constexpr unsigned tile = 1024;
constexpr unsigned unroll = 8;  // loads under way per lane

/// How many blocks of a kernel that tosses coins a multiprocessor has registers for.
constexpr unsigned coin_blocks = 4;

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

template <bool with_coins>
__global__ void __launch_bounds__(shape_threads, with_coins ? coin_blocks : 8)
    write_signs_kernel(const float* __restrict__ values, std::uint64_t n, std::uint64_t first, RandomKey coins,
                       std::byte* __restrict__ bits, Report* report) {
  const unsigned lane = lane_of_thread();
  std::uint32_t largest = 0;
  for (std::uint64_t start = warp_of_grid() * tile; start < n; start += warps_of_grid() * tile) {
    const unsigned size = at_most(n - start, tile);
    unsigned mine = 0;
    for (unsigned base = 0; base < warp_lanes; base += unroll) {
      float x[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = warp_lanes * (base + k) + lane;
        x[k] = i < size ? values[start + i] : 0.0F;
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
      if constexpr (with_coins) {
        if (!__any_sync(all_lanes, least == 0)) continue;
#pragma unroll 1
        for (unsigned k = 0; k < unroll; ++k) {
          const unsigned i = warp_lanes * (base + k) + lane;
          const unsigned zeros = __ballot_sync(all_lanes, i < size && magnitude(values[start + i]) == 0);
          if (zeros == 0) continue;
          const unsigned word = zeros & coins_of_word(coins, first + start + warp_lanes * (base + k));
          if (lane == base + k) mine |= word;
        }
      }
    }
    store_bits(mine, size, bits + start / 8);
  }
  raise(&report->largest, largest);
}

// The sums are added up in the order of the CPU: eight sums of every eighth entry of a block, these in their order, the
// blocks of a run, and the runs. Eight lanes take a block, so a warp takes four.

constexpr unsigned sum_block = 4096;

__global__ void write_signs_and_parts_kernel(const float* __restrict__ values, std::uint64_t n,
                                             std::byte* __restrict__ bits, SignSums* __restrict__ parts,
                                             Report* report) {
  const unsigned team = team_of_warp();
  const unsigned lane = lane_of_team();
  const std::uint64_t blocks = (n + sum_block - 1) / sum_block;
  std::uint32_t largest = 0;
  // All lanes of a warp go around as often, because the votes are of all; a team without a block has no entries.
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < blocks; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t block = first + team;
    const std::uint64_t start = block * sum_block;
    const unsigned size = start < n ? at_most(n - start, sum_block) : 0;
    const unsigned longest = at_most(n - first * sum_block, sum_block);
    double positive = 0;
    double negative = 0;
    unsigned negatives = 0;
    for (unsigned base = 0; base < longest; base += team_lanes * unroll) {
      float x[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        const unsigned i = base + team_lanes * k + lane;
        x[k] = i < size ? values[start + i] : 0.0F;
      }
      unsigned votes = 0;  // of all teams for the lane's eight entries
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
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
      if (base + team_lanes * lane < size) bits[start / 8 + base / 8 + lane] = static_cast<std::byte>(mine);
    }
    positive = sum_in_order(positive);
    negative = sum_in_order(negative);
    for (unsigned with = 1; with < team_lanes; with *= 2) {
      negatives += __shfl_xor_sync(all_lanes, negatives, static_cast<int>(with));
    }
    if (lane == 0 && block < blocks) parts[block] = {positive, negative, negatives};
  }
  raise(&report->largest, largest);
}

/// One block.
__global__ void __launch_bounds__(runs_threads, 1)
    add_parts_kernel(const SignSums* __restrict__ parts, std::uint64_t blocks, SignSums* sums) {
  const SignSums all = sum_of_runs(parts, blocks, [](SignSums& to, const SignSums& from) {
    to.positive += from.positive;
    to.negative += from.negative;
    to.negatives += from.negatives;
  });
  if (threadIdx.x == 0) *sums = all;
}

__global__ void add_by_sign_kernel(const std::byte* __restrict__ bits, std::uint64_t n, float positive, float negative,
                                   float* __restrict__ sum) {
  const unsigned lane = lane_of_thread();
  for (std::uint64_t start = warp_of_grid() * tile; start < n; start += warps_of_grid() * tile) {
    const unsigned size = at_most(n - start, tile);
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
        if (i < size) sum[start + i] = x[k] + ((byte[k] >> lane % 8 & 1) != 0 ? negative : positive);
      }
    }
  }
}

__global__ void take_majority_kernel(float least, RandomKey coins, float* __restrict__ values, std::uint64_t n) {
  const unsigned lane = lane_of_thread();
  for (std::uint64_t start = warp_of_grid() * tile; start < n; start += warps_of_grid() * tile) {
    const unsigned size = at_most(n - start, tile);
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
          const unsigned tosses = coins_of_word(coins, start + warp_lanes * (base + k));
          if (tied) below = (tosses >> lane & 1) != 0;
        }
        if (i < size) values[start + i] = below ? -1.0F : 1.0F;
      }
    }
  }
}

}  // namespace

Result<void> write_votes(const float* values, std::uint64_t n, std::uint64_t first, const RandomKey& coins,
                         std::byte* bits, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  return launch("write_votes", write_signs_kernel<true>, shape_for(n, tile / warp_lanes, coin_blocks), stream, values,
                n, first, coins, bits, report);
}

Result<void> write_signs(const float* values, std::uint64_t n, std::byte* bits, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  return launch("write_signs", write_signs_kernel<false>, shape_for(n, tile / warp_lanes), stream, values, n,
                std::uint64_t{0}, RandomKey{}, bits, report);
}

Result<void> write_signs(const float* values, std::uint64_t n, std::byte* bits, SignSums* parts, SignSums* sums,
                         Report* report, StreamHandle stream) {
  if (n > 0) {
    const auto written = launch("write_signs (sums)", write_signs_and_parts_kernel,
                                shape_for(n, sum_block / team_lanes), stream, values, n, bits, parts, report);
    if (!written) return written;
  }
  return launch("write_signs (total)", add_parts_kernel, shape_for_runs<SignSums>(), stream, parts, sign_sum_parts(n),
                sums);
}

Result<void> add_by_sign(const std::byte* bits, std::uint64_t n, float positive, float negative, float* sum,
                         StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_by_sign", add_by_sign_kernel, shape_for(n, tile / warp_lanes), stream, bits, n, positive, negative,
                sum);
}

Result<void> take_majority(float least, const RandomKey& coins, float* values, std::uint64_t n, StreamHandle stream) {
  if (n == 0) return {};
  return launch("take_majority", take_majority_kernel, shape_for(n, tile / warp_lanes), stream, least, coins, values,
                n);
}

}  // namespace weir::cuda
