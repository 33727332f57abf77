#include "cuda/kernels/qsgd.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/pack.cuh"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// Where the parts of a bucket's code begin, behind the norm.
struct Places {
  std::uint64_t levels;
  std::uint64_t signs;
  std::uint64_t end;
};

__device__ Places places_of(std::uint64_t entries, unsigned bits) {
  const std::uint64_t signs = sizeof(float) + packed_bytes(entries, bits);
  return {sizeof(float), signs, signs + packed_bytes(entries, 1)};
}

/// Twin of norm_of() (compressors/quantizers/qsgd.cpp).
__device__ float norm_of(double squares) {
  const double root = sqrt(squares);
  const double most = largest_float;
  return static_cast<float>(root < most ? root : most);
}

__global__ void write_levels_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key, unsigned bits,
                                    std::uint64_t bucket, std::byte* __restrict__ code, Report* report) {
  const unsigned lane = lane_of_team();
  const std::uint64_t buckets = (n + bucket - 1) / bucket;
  const std::uint64_t bucket_bytes = places_of(bucket, bits).end;
  const auto most = static_cast<float>((1U << bits) - 1);
  std::uint32_t largest = 0;
  // All lanes of a warp go around as often; a team without a bucket has no entries.
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < buckets;
       first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t number = first + team_of_warp();
    const std::uint64_t start = number * bucket;
    const std::uint64_t size = start >= n ? 0 : n - start < bucket ? n - start : bucket;
    const std::uint64_t longest = n - first * bucket < bucket ? n - first * bucket : bucket;
    const float* const from = values + start;
    double squares = 0;
#pragma unroll 8
    for (std::uint64_t i = lane; i < size; i += team_lanes) {
      const float x = from[i];
      largest = magnitude(x) > largest ? magnitude(x) : largest;
      squares += static_cast<double>(x) * x;
    }
    const float norm = norm_of(sum_in_order(squares));
    std::byte* const to = code + number * bucket_bytes;
    const Places places = places_of(size, bits);
    if (lane == 0 && size > 0) store_f32(norm, to);
    for (std::uint64_t at = 0; at < longest; at += random_group) {
      const unsigned count = at < size ? at_most(size - at, random_group) : 0;
      const Philox::Block words = random_block(key, (start + at) / random_group * random_lanes + lane);
      std::uint64_t levels = 0;
      unsigned signs = 0;
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        const unsigned i = 8 * k + lane;
        const float x = i < count ? from[at + i] : 0.0F;
        // |x| / norm is at most 1, rounded or not: this is at most `most`, and if it is `most`, the fraction is zero.
        const float scaled = norm > 0 ? __uint_as_float(magnitude(x)) / norm * most : 0.0F;
        const int level = static_cast<int>(scaled);
        const float fraction = (scaled - static_cast<float>(level)) * 0x1p24F;
        const int code_of_x = i < count && norm > 0 ? level + (unit24(word_of(words, k)) < fraction ? 1 : 0) : 0;
        levels |= static_cast<std::uint64_t>(code_of_x & 0xFF) << 8 * k;
        const unsigned byte = __ballot_sync(all_lanes, x < 0) >> team_lanes * team_of_warp() & 0xFF;
        if (lane == k) signs = byte;
      }
      const std::uint64_t packed = squeeze(transpose_bytes(levels), bits);
      if (8 * lane >= count) continue;
      const unsigned left = count - 8 * lane < 8 ? count - 8 * lane : 8;
      store_word(packed, to + places.levels + (at / 8 + lane) * bits, static_cast<unsigned>(packed_bytes(left, bits)));
      to[places.signs + at / 8 + lane] = static_cast<std::byte>(signs);
    }
  }
  raise(&report->largest, largest);
}

/// A thread takes eight entries.
__global__ void add_levels_kernel(const std::byte* __restrict__ code, std::uint64_t n, unsigned bits,
                                  std::uint64_t bucket, float weight, float* __restrict__ sum, Report* report) {
  const std::uint64_t bucket_bytes = places_of(bucket, bits).end;
  const float step = 1 / static_cast<float>((1U << bits) - 1);
  bool bad = false;
  for (std::uint64_t at = 8 * thread_of_grid(); at < n; at += 8 * threads_of_grid()) {
    const std::uint64_t number = at / bucket;
    const std::uint64_t start = number * bucket;
    const Places places = places_of(n - start < bucket ? n - start : bucket, bits);
    const std::byte* const from = code + number * bucket_bytes;
    const unsigned count = at_most(n - at, 8);
    const float norm = load_f32(from);
    const std::uint64_t eight = (at - start) / 8;
    const auto packed =
        load_word<std::uint64_t>(from + places.levels + eight * bits, static_cast<unsigned>(packed_bytes(count, bits)));
    const auto signs = static_cast<unsigned>(from[places.signs + eight]);
    bad = bad || !is_scale(norm) || (count < 8 && (packed >> count * bits != 0 || signs >> count != 0));
    const std::uint64_t levels = spread(packed, bits);
    for (unsigned half = 0; half < count; half += 4) {
      const unsigned of_half = count - half < 4 ? count - half : 4;
      Four four = load_four(sum + at + half, of_half);
      for (unsigned k = 0; k < 4; ++k) {
        const float size = static_cast<float>(static_cast<int>(levels >> 8 * (half + k) & 0xFF)) * step * norm;
        four.x[k] += weight * ((signs >> (half + k) & 1) != 0 ? -size : size);
      }
      store_four(four, sum + at + half, of_half);
    }
  }
  raise(&report->misfit, bad ? 1 : 0);
}

}  // namespace

Result<void> write_levels(const float* values, std::uint64_t n, const RandomKey& key, unsigned bits,
                          std::uint64_t bucket, std::byte* buckets, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  const std::uint64_t teams = (n + bucket - 1) / bucket;
  return launch("write_levels", write_levels_kernel, shape_for(teams * team_lanes, 1), stream, values, n, key, bits,
                bucket, buckets, report);
}

Result<void> add_levels(const std::byte* buckets, std::uint64_t n, unsigned bits, std::uint64_t bucket, float weight,
                        float* sum, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_levels", add_levels_kernel, shape_for(n, 8), stream, buckets, n, bits, bucket, weight, sum,
                report);
}

}  // namespace weir::cuda
