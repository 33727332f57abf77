#include "cuda/kernels/draw.hpp"

#include "cuda/kernels/each.cuh"
#include "cuda/kernels/random.cuh"

namespace weir::cuda {
namespace {

// The order of the CPU's sum: eight sums of every eighth entry of a part, these in their order, and the parts.

constexpr unsigned threads = 256;
constexpr unsigned part_entries = 16384;
constexpr unsigned unroll = 8;

__global__ void magnitude_parts_kernel(const float* __restrict__ values, std::uint64_t n, std::uint32_t below,
                                       MagnitudeSums* __restrict__ sums) {
  const std::uint64_t parts = magnitude_sum_parts(n);
  // All lanes of a warp go around as often; a team without a part has no entries.
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < parts; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t part = first + team_of_warp();
    const std::uint64_t start = part * part_entries;
    const std::uint64_t end = start + part_entries < n ? start + part_entries : n;
    double sum = 0;
    std::uint32_t largest = 0;
    std::uint32_t nonzeros = 0;
    for (std::uint64_t base = start + lane_of_team(); base < end; base += team_lanes * unroll) {
      std::uint32_t sizes[unroll];
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        sizes[k] = base + team_lanes * k < end ? magnitude(values[base + team_lanes * k]) : 0;
      }
#pragma unroll
      for (unsigned k = 0; k < unroll; ++k) {
        largest = sizes[k] > largest ? sizes[k] : largest;
        if (sizes[k] == 0 || sizes[k] >= below) continue;
        sum += static_cast<double>(__uint_as_float(sizes[k]));
        ++nonzeros;
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

__global__ void add_magnitude_parts_kernel(const MagnitudeSums* parts, std::uint64_t count, MagnitudeSums* sums) {
  MagnitudeSums all;
  for (std::uint64_t i = 0; i < count; ++i) {
    all.sum += parts[i].sum;
    all.largest = parts[i].largest > all.largest ? parts[i].largest : all.largest;
    all.nonzeros += parts[i].nonzeros;
  }
  *sums = all;
}

/// Where the words begin that decide where the first ones do not, as for the twin.
constexpr std::uint64_t second_words = std::uint64_t{1} << 32;

/// happens() (compressors/transforms/water_filling.hpp), of the entry's own words.
__device__ bool is_drawn(const RandomKey& key, std::uint64_t entry, double probability) {
  const double rest = probability * 0x1p32 - static_cast<double>(random_word(key, entry));
  if (!(rest > 0)) return false;
  return rest >= 1 || static_cast<double>(random_word(key, second_words + entry)) < rest * 0x1p32;
}

__global__ void draw_by_magnitude_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key, float level,
                                         float* __restrict__ drawn) {
  for_each_tile(
      n, 0.0F, [&](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value, bool is_entry) {
        if (!is_entry) return;
        const float size = __uint_as_float(magnitude(value));
        const double probability = size == 0       ? 0
                                   : size >= level ? 1
                                                   : static_cast<double>(size) / static_cast<double>(level);
        const float sent = size > level ? size : level;
        drawn[i] = !is_drawn(key, i, probability) ? 0.0F : value < 0 ? -sent : sent;
      });
}

}  // namespace

Result<void> magnitude_sums(const float* values, std::uint64_t n, std::uint32_t below, MagnitudeSums* parts,
                            MagnitudeSums* sums, StreamHandle stream) {
  const std::uint64_t count = magnitude_sum_parts(n);
  if (n > 0) {
    constexpr std::uint64_t of_block = threads / team_lanes;
    const Shape shape = {.blocks = blocks_for((count + of_block - 1) / of_block), .threads = threads};
    auto added = launch("magnitude_sums", magnitude_parts_kernel, shape, stream, values, n, below, parts);
    if (!added) return added;
  }
  return launch("magnitude_sums (total)", add_magnitude_parts_kernel, {.blocks = 1, .threads = 1}, stream, parts, count,
                sums);
}

Result<void> draw_by_magnitude(const float* values, std::uint64_t n, const RandomKey& key, float level, float* drawn,
                               StreamHandle stream) {
  if (n == 0) return {};
  return launch("draw_by_magnitude", draw_by_magnitude_kernel, shape_for_each(n), stream, values, n, key, level, drawn);
}

}  // namespace weir::cuda
