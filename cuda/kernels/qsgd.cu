#include "cuda/kernels/qsgd.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/pack.cuh"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// Where the parts of a bucket's code begin, behind the norm.
struct Places {
  unsigned levels;
  unsigned signs;
  unsigned end;
};

__device__ Places places_of(unsigned entries, unsigned bits) {
  const unsigned signs = sizeof(float) + (entries * bits + 7) / 8;
  return {sizeof(float), signs, signs + (entries + 7) / 8};
}

/// Twin of norm_of() (compressors/kernels/quantization/quantize.cpp).
__device__ float norm_of(double squares) {
  const double root = sqrt(squares);
  const double most = largest_float;
  return static_cast<float>(root < most ? root : most);
}

/// What the levels of a bucket are made with.
struct Bucket {
  float norm;
  float most;
  float factor;  ///< most / norm
  float error;   ///< that a level has before it is rounded
};

__device__ Bucket bucket_of(float norm, unsigned bits) {
  const auto most = static_cast<float>((1U << bits) - 1);
  // The factor and the twin's two steps are rounded, and one of 24 random bits is left out. Where a norm's factor may
  // overflow or be inexact, no level is sure.
  const bool is_plain = norm == 0 || (norm >= 0x1p-100F && norm <= 0x1p100F);
  return {norm, most, norm > 0 ? most / norm : 0, is_plain ? (most + 1) * 0x1p-22F : 1};
}

__device__ std::uint32_t level_of(float x, std::uint32_t word, const Bucket& bucket) {
  // |x| / norm is at most 1, rounded or not: this is at most `most`, and if it is `most`, the fraction is zero.
  const float scaled = bucket.norm > 0 ? __uint_as_float(magnitude(x)) / bucket.norm * bucket.most : 0.0F;
  const int level = static_cast<int>(scaled);
  const float fraction = (scaled - static_cast<float>(level)) * 0x1p24F;
  return static_cast<std::uint32_t>(level) + (unit24(word) < fraction ? 1 : 0);
}

/// The levels of eight values.
__device__ std::uint64_t levels_of(const float* x, const Philox::Block& words, const Bucket& bucket) {
  // A level goes up if the random fraction is below that of the scaled value: it is their difference rounded up, which
  // is to the nearest integer after adding a half.
  Rounding rounding(0);
  std::uint32_t level[8];
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    const float above = __uint_as_float(word_of(words, k) >> 9 | 0x3F800000U);  // 1 more than the random fraction
    level[k] = rounding(fmaf(fabsf(x[k]), bucket.factor, 1.5F - above));
  }
  if (!rounding.is_sure(bucket.error)) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) level[k] = level_of(x[k], word_of(words, k), bucket);
  }
  return std::uint64_t{bytes_of<0>(level + 4)} << 32 | bytes_of<0>(level);
}

/// Codes a bucket for each team of a warp, from the bucket `first` on. All four have all their entries if `whole`; else
/// some may have fewer, or none. All lanes of the warp take part.
template <bool whole>
__device__ void write_buckets(const float* __restrict__ values, std::uint64_t n, const RandomKey& key, unsigned bits,
                              unsigned bucket, std::uint64_t first, std::byte* __restrict__ code,
                              std::uint32_t& largest) {
  const unsigned lane = lane_of_team();
  const std::uint64_t number = first + team_of_warp();
  const std::uint64_t start = number * bucket;
  const unsigned size = whole ? bucket : start < n ? at_most(n - start, bucket) : 0;
  const unsigned longest = whole ? bucket : at_most(n - first * bucket, bucket);
  const float* const from = values + start + lane;
  double squares = 0;
#pragma unroll 2
  for (unsigned at = 0; at < longest; at += random_group) {
    float x[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) x[k] = whole || at + 8 * k + lane < size ? from[at + 8 * k] : 0.0F;
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) {
      largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
      squares += static_cast<double>(x[k]) * x[k];
    }
  }
  const Bucket of = bucket_of(norm_of(sum_in_order(squares)), bits);
  const Places places = places_of(size, bits);
  std::byte* const to = code + number * places_of(bucket, bits).end;
  if (lane == 0 && size > 0) store_f32(of.norm, to);
  for (unsigned at = 0; at < longest; at += random_group) {
    float x[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) x[k] = whole || at + 8 * k + lane < size ? from[at + 8 * k] : 0.0F;
    const Philox::Block words = random_block(key, (start + at) / random_group * random_lanes + lane);
    unsigned votes = 0;  // of all teams for the lane's eight entries
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) {
      const unsigned of_all = __ballot_sync(all_lanes, x[k] < 0);
      if (lane == k) votes = of_all;
    }
    const std::uint64_t packed = squeeze(transpose_bytes(levels_of(x, words, of)), bits);
    const unsigned mine = at + 8 * lane;
    if (!whole && mine >= size) continue;
    const unsigned count = whole ? 8 : at_most(size - mine, 8);
    store_word(packed, to + places.levels + mine / 8 * bits, (count * bits + 7) / 8);
    to[places.signs + mine / 8] = static_cast<std::byte>(votes >> team_lanes * team_of_warp() & 0xFF);
  }
}

/// Three blocks of a multiprocessor leave the buckets, if of some hundred entries, in its cache until they are read
/// again.
constexpr unsigned write_blocks = 3;

__global__ void __launch_bounds__(shape_threads, write_blocks)
    write_levels_kernel(Batch<CodeToWrite> batch, unsigned bits, unsigned bucket) {
  const auto [of, blocks] = batch.of_this_block();
  const std::uint64_t whole = of.n / bucket;
  std::uint32_t largest = 0;
  std::uint64_t first = blocks.warp() * teams_of_warp;
  for (; first + teams_of_warp <= whole; first += blocks.warps() * teams_of_warp) {
    write_buckets<true>(of.values, of.n, of.key, bits, bucket, first, of.code, largest);
  }
  if (first * bucket < of.n) {
    write_buckets<false>(of.values, of.n, of.key, bits, bucket, first, of.code, largest);
  }
  raise(&of.report->largest, largest);
}

/// A thread takes eight entries.
__global__ void add_levels_kernel(Batch<CodeToAdd> batch, unsigned bits, unsigned bucket) {
  const auto [of, blocks] = batch.of_this_block();
  const std::byte* const __restrict__ code = of.code;
  float* const __restrict__ sum = of.sum;
  const unsigned bucket_bytes = places_of(bucket, bits).end;
  const float step = 1 / static_cast<float>((1U << bits) - 1);
  const unsigned eights = bucket / 8;
  // Of the thread's eight: the bucket, and its number there. Moved on without divisions.
  std::uint64_t number = blocks.thread() / eights;
  auto eight = static_cast<unsigned>(blocks.thread() % eights);
  const std::uint64_t numbers_on = blocks.threads() / eights;
  const auto eights_on = static_cast<unsigned>(blocks.threads() % eights);
  for (std::uint64_t at = 8 * blocks.thread(); at < of.n; at += 8 * blocks.threads()) {
    const unsigned count = at_most(of.n - at, 8);
    const unsigned first_count = at_most(count, 4);
    const Places places = places_of(at_most(of.n - number * bucket, bucket), bits);
    const std::byte* const from = code + number * bucket_bytes;
    const auto packed = load_word<std::uint64_t>(from + places.levels + eight * bits, (count * bits + 7) / 8);
    const auto signs = static_cast<unsigned>(from[places.signs + eight]);
    const float norm = load_f32(from);
    Four first = load_four(sum + at, first_count);
    Four second = load_four(sum + at + 4, count - first_count);
    const std::uint64_t levels = spread(packed, bits);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) {
      const float size = static_cast<float>(static_cast<int>(levels >> 8 * k & 0xFF)) * step * norm;
      float& x = k < 4 ? first.x[k] : second.x[k - 4];
      x += of.weight * ((signs >> k & 1) != 0 ? -size : size);
    }
    store_four(first, sum + at, first_count);
    store_four(second, sum + at + 4, count - first_count);
    eight += eights_on;
    number += numbers_on;
    if (eight >= eights) {
      eight -= eights;
      ++number;
    }
  }
}

}  // namespace

Result<void> write_levels(std::span<const CodeToWrite> tensors, unsigned bits, std::uint64_t bucket,
                          StreamHandle stream) {
  const auto shape = [&](const CodeToWrite& of) {
    return shape_for((of.n + bucket - 1) / bucket * team_lanes, 1, write_blocks);
  };
  return launch_blocks("write_levels", write_levels_kernel, tensors, shape, stream, bits,
                       static_cast<unsigned>(bucket));
}

Result<void> add_levels(std::span<const CodeToAdd> tensors, unsigned bits, std::uint64_t bucket, StreamHandle stream) {
  const auto shape = [](const CodeToAdd& of) { return shape_for(of.n, 8); };
  return launch_blocks("add_levels", add_levels_kernel, tensors, shape, stream, bits, static_cast<unsigned>(bucket));
}

}  // namespace weir::cuda
