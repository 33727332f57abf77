#include "cuda/kernels/draw.hpp"

#include <limits>

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

// The order of the CPU's sum: eight sums of every eighth entry of a part, these in their order, and the parts.

constexpr unsigned part_entries = 16384;
constexpr unsigned unroll = 64;

__global__ void __launch_bounds__(warp_lanes)
    magnitude_parts_kernel(const float* __restrict__ values, std::uint64_t n, std::uint32_t below,
                           MagnitudeSums* __restrict__ sums) {
  const std::uint64_t parts = magnitude_sum_parts(n);
  // All lanes of a warp go around as often; a team without a part has no entries.
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < parts; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t part = first + team_of_warp();
    const std::uint64_t start = part * part_entries;
    const unsigned end = start < n ? at_most(n - start, part_entries) : 0;
    const unsigned end_of_all = at_most(n - first * part_entries, part_entries);
    double sum = 0;
    std::uint32_t largest = 0;
    std::uint32_t nonzeros = 0;
    for (unsigned base = 0; base < end_of_all; base += team_lanes * unroll) {
      std::uint32_t sizes[unroll];
      const float* const from = values + start + base + lane_of_team();
      const unsigned rest = base + lane_of_team() < end ? end - base - lane_of_team() : 0;
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) sizes[k] = team_lanes * k < rest ? magnitude(from[team_lanes * k]) : 0;
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        largest = sizes[k] > largest ? sizes[k] : largest;
        const std::uint32_t added = sizes[k] < below ? sizes[k] : 0;
        sum += static_cast<double>(__uint_as_float(added));
        nonzeros += added != 0 ? 1 : 0;
      }
    }
    const double all = sum_in_order(sum);
    for (unsigned distance = team_lanes / 2; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(all_lanes, largest, static_cast<int>(distance));
      largest = other > largest ? other : largest;
      nonzeros += __shfl_xor_sync(all_lanes, nonzeros, static_cast<int>(distance));
    }
    if (lane_of_team() == 0 && part < parts) sums[part] = {all, largest, nonzeros};
  }
}

constexpr unsigned total_threads = 256;
constexpr unsigned parts_together = 1024;

/// What the threads of the block that adds up the parts share.
struct SharedParts {
  double sums[parts_together];
  std::uint32_t largest;
  std::uint32_t nonzeros;
};

/// One block: its threads bring the sums to where one of them adds them up in their order.
__global__ void add_magnitude_parts_kernel(const MagnitudeSums* __restrict__ parts, std::uint64_t count,
                                           MagnitudeSums* __restrict__ sums) {
  SharedParts& shared = *shared_memory<SharedParts>();
  if (threadIdx.x == 0) shared.largest = shared.nonzeros = 0;
  __syncthreads();
  double sum = 0;
  std::uint32_t largest = 0;
  std::uint32_t nonzeros = 0;
  for (std::uint64_t first = 0; first < count; first += parts_together) {
    const unsigned here = at_most(count - first, parts_together);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < here; i += total_threads) {
      const MagnitudeSums part = parts[first + i];
      shared.sums[i] = part.sum;
      largest = part.largest > largest ? part.largest : largest;
      nonzeros += part.nonzeros;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 16
      for (unsigned i = 0; i < here; ++i) sum += shared.sums[i];
    }
    __syncthreads();
  }
  largest = __reduce_max_sync(all_lanes, largest);
  nonzeros = __reduce_add_sync(all_lanes, nonzeros);
  if (lane_of_thread() == 0) {
    atomicMax(&shared.largest, largest);
    atomicAdd(&shared.nonzeros, nonzeros);
  }
  __syncthreads();
  if (threadIdx.x == 0) *sums = {sum, shared.largest, shared.nonzeros};
}

/// Where the words begin that decide where the first ones do not, as for the twin.
constexpr std::uint64_t second_words = std::uint64_t{1} << 32;

/// happens() (compressors/transforms/water_filling.hpp), of the entry's own words.
__device__ bool is_drawn(const RandomKey& key, std::uint64_t entry, double probability) {
  const double rest = probability * 0x1p32 - static_cast<double>(random_word(key, entry));
  if (!(rest > 0)) return false;
  return rest >= 1 || static_cast<double>(random_word(key, second_words + entry)) < rest * 0x1p32;
}

__device__ float sent(float value, float level) {
  const float size = __uint_as_float(magnitude(value));
  const float decoded = size > level ? size : level;
  return value < 0 ? -decoded : decoded;
}

__device__ float draw(float value, float level, const RandomKey& key, std::uint64_t entry) {
  const float size = __uint_as_float(magnitude(value));
  const double probability = size == 0 ? 0 : size >= level ? 1 : static_cast<double>(size) / static_cast<double>(level);
  return is_drawn(key, entry, probability) ? sent(value, level) : 0.0F;
}

/// More than a probability that is computed with floats may be wrong by, in units of 2^-24.
constexpr float margin = 8;

/// Draws the entries of a team's group, of which each lane takes every eighth. For all but about one in a million, 24
/// bits of the word decide.
__device__ void draw_group(const float* __restrict__ values, std::uint64_t n, std::uint64_t group, const RandomKey& key,
                           float level, float factor, float* __restrict__ drawn) {
  const std::uint64_t start = group * random_group + lane_of_team();
  const unsigned end = start < n ? at_most(n - start, random_group) : 0;
  float x[random_lanes];
#pragma unroll
  for (unsigned k = 0; k < random_lanes; ++k) x[k] = random_lanes * k < end ? values[start + random_lanes * k] : 0.0F;
  const Philox::Block words = random_block(key, group * random_lanes + lane_of_team());
  unsigned undecided = 0;
#pragma unroll
  for (unsigned k = 0; k < random_lanes; ++k) {
    const float likely = __uint_as_float(magnitude(x[k])) * factor;
    const float word = unit24(word_of(words, k));
    const bool is_drawn = word + margin < likely;
    if (!is_drawn && !(likely + margin < word)) undecided |= 1U << k;
    x[k] = is_drawn ? sent(x[k], level) : 0.0F;
  }
#pragma unroll
  for (unsigned k = 0; k < random_lanes; ++k) {
    if (random_lanes * k < end) drawn[start + random_lanes * k] = x[k];
  }
  for (; undecided != 0; undecided &= undecided - 1) {
    const unsigned at = random_lanes * (static_cast<unsigned>(__ffs(static_cast<int>(undecided))) - 1);
    if (at < end) drawn[start + at] = draw(values[start + at], level, key, start + at);
  }
}

/// `factor` is 2^24 / level, or NaN, which decides nothing, if that is too large for a float.
__global__ void draw_by_magnitude_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key, float level,
                                         float factor, float* __restrict__ drawn) {
  const std::uint64_t groups = (n + random_group - 1) / random_group;
  const std::uint64_t teams = threads_of_grid() / team_lanes;
  for (std::uint64_t group = thread_of_grid() / team_lanes; group < groups; group += teams) {
    draw_group(values, n, group, key, level, factor, drawn);
  }
}

}  // namespace

Result<void> magnitude_sums(const float* values, std::uint64_t n, std::uint32_t below, MagnitudeSums* parts,
                            MagnitudeSums* sums, StreamHandle stream) {
  const std::uint64_t count = magnitude_sum_parts(n);
  if (n > 0) {
    // A block is a warp, so that few parts are spread over many multiprocessors.
    const Shape shape = {.blocks = blocks_for((count + teams_of_warp - 1) / teams_of_warp), .threads = warp_lanes};
    auto added = launch("magnitude_sums", magnitude_parts_kernel, shape, stream, values, n, below, parts);
    if (!added) return added;
  }
  const Shape shape = {.blocks = 1, .threads = total_threads, .shared_bytes = sizeof(SharedParts)};
  return launch("magnitude_sums (total)", add_magnitude_parts_kernel, shape, stream, parts, count, sums);
}

Result<void> draw_by_magnitude(const float* values, std::uint64_t n, const RandomKey& key, float level, float* drawn,
                               StreamHandle stream) {
  if (n == 0) return {};
  const float factor = 0x1p24F / level;
  return launch("draw_by_magnitude", draw_by_magnitude_kernel, shape_for(n, random_lanes), stream, values, n, key,
                level, factor <= largest_float ? factor : std::numeric_limits<float>::quiet_NaN(), drawn);
}

}  // namespace weir::cuda
