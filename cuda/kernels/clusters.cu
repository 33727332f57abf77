#include "cuda/kernels/clusters.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// mix32() of compressors/kernels/sketching/hash.hpp.
__device__ std::uint32_t mix(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x85EBCA6BU;
  x = (x ^ x >> 13) * 0xC2B2AE35U;
  return x ^ x >> 16;
}

/// The segments of n entries, as the twin's Segments.
struct Segments {
  static constexpr std::uint64_t block = 256;  // entries
  static constexpr std::uint64_t most = (std::uint64_t{1} << 18) / block;

  explicit Segments(std::uint64_t n) : blocks((n + block - 1) / block), count(blocks / most + 1) {}

  /// Segment s begins with block floor(blocks * s / count).
  __device__ std::uint64_t of_block(std::uint64_t at) const { return ((at + 1) * count - 1) / blocks; }

  std::uint64_t blocks;
  std::uint64_t count;
};

/// A segment's buckets in the table of a cluster.
struct alignas(8) Buckets {
  /// That of an entry.
  __device__ std::uint32_t of(std::uint32_t entry, std::uint32_t salt) const {
    return begin + static_cast<std::uint32_t>(std::uint64_t{mix(entry ^ salt)} * count >> 32);
  }

  std::uint32_t begin;
  std::uint32_t count;
};

constexpr unsigned clusters_max = 16;
constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_lanes;
constexpr unsigned entries_of_lane = Segments::block / warp_lanes;

/// Finds the buckets that the entries of a block have in the table of each cluster. All lanes of the warp take part.
__device__ void load_buckets(const Clusters& clusters, const Segments& segments, std::uint64_t block,
                             Buckets* of_cluster) {
  const unsigned lane = lane_of_thread();
  const std::uint64_t segment = segments.of_block(block);
  if (lane < clusters_max) {
    const std::uint64_t size = clusters.sizes[lane];
    const std::uint64_t begin = size * segment / segments.count;
    const std::uint64_t count = size * (segment + 1) / segments.count - begin;
    of_cluster[lane] = {clusters.tables[lane] + static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(count)};
  }
  __syncwarp();
}

Shape shape_for_segments(const Segments& segments) {
  return {.blocks = blocks_for((segments.blocks + warps - 1) / warps),
          .threads = threads,
          .shared_bytes = warps * clusters_max * sizeof(Buckets)};
}

/// A warp takes a block of entries, which are all of one segment.
__global__ void place_entries_kernel(const float* __restrict__ values, std::uint64_t n, Clusters clusters,
                                     Segments segments, std::byte* __restrict__ ids, std::int32_t* __restrict__ buckets,
                                     Report* report) {
  Buckets* const of_cluster = shared_memory<Buckets>() + threadIdx.x / warp_lanes * clusters_max;
  const unsigned lane = lane_of_thread();
  const unsigned each = (1U << (clusters.bits - 1)) - 1;
  std::uint32_t largest = 0;
  for (std::uint64_t block = warp_of_grid(); block < segments.blocks; block += warps_of_grid()) {
    const std::uint64_t first = block * Segments::block + lane;
    const unsigned end = first < n ? at_most(n - first, Segments::block) : 0;
    float x[entries_of_lane];
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) x[k] = warp_lanes * k < end ? values[first + warp_lanes * k] : 0.0F;

    load_buckets(clusters, segments, block, of_cluster);
    unsigned id[entries_of_lane];
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) {
      largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
      id[k] = __float_as_uint(x[k]) >> 31 != 0 ? each + 1 : 0;
    }
    for (unsigned t = 0; t < each; ++t) {
      const std::uint32_t positive = magnitude(clusters.thresholds[t]);
      const std::uint32_t negative = magnitude(clusters.thresholds[each + t]);
#pragma unroll
      for (unsigned k = 0; k < entries_of_lane; ++k) {
        id[k] += magnitude(x[k]) >= (__float_as_uint(x[k]) >> 31 != 0 ? negative : positive) ? 1 : 0;
      }
    }
    std::uint32_t bucket[entries_of_lane];
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) {
      bucket[k] = of_cluster[id[k]].of(static_cast<std::uint32_t>(first + warp_lanes * k), clusters.salt);
    }
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) {
      if (warp_lanes * k >= end) continue;
      ids[first + warp_lanes * k] = static_cast<std::byte>(id[k]);
      buckets[first + warp_lanes * k] = static_cast<std::int32_t>(bucket[k]);
    }
    __syncwarp();
  }
  raise(&report->largest, largest);
}

/// A warp takes a block of entries.
__global__ void add_by_bucket_kernel(const std::byte* __restrict__ ids, const float* __restrict__ means,
                                     std::uint64_t n, Clusters clusters, Segments segments, float weight,
                                     float* __restrict__ sum) {
  Buckets* const of_cluster = shared_memory<Buckets>() + threadIdx.x / warp_lanes * clusters_max;
  const unsigned bits = clusters.bits;
  const unsigned mask = (1U << bits) - 1;
  for (std::uint64_t block = warp_of_grid(); block < segments.blocks; block += warps_of_grid()) {
    load_buckets(clusters, segments, block, of_cluster);
    const std::uint64_t first = block * Segments::block + lane_of_thread();
    const unsigned end = first < n ? at_most(n - first, Segments::block) : 0;
    float x[entries_of_lane];
    float mean[entries_of_lane];
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) {
      const std::uint64_t entry = first + warp_lanes * k;
      if (warp_lanes * k >= end) continue;
      const auto shift = static_cast<unsigned>(entry * bits % 8);
      const std::byte* const at = ids + entry * bits / 8;
      unsigned id = static_cast<unsigned>(at[0]);
      if (shift + bits > 8) id |= static_cast<unsigned>(at[1]) << 8;
      x[k] = sum[entry];
      mean[k] = means[of_cluster[id >> shift & mask].of(static_cast<std::uint32_t>(entry), clusters.salt)];
    }
#pragma unroll
    for (unsigned k = 0; k < entries_of_lane; ++k) {
      if (warp_lanes * k < end) sum[first + warp_lanes * k] = x[k] + weight * mean[k];
    }
    __syncwarp();
  }
}

/// The first place whose bucket is not below `bucket`.
__device__ std::uint64_t first_of(const std::int32_t* sorted, std::uint64_t n, std::uint64_t bucket) {
  std::uint64_t begin = 0;
  std::uint64_t end = n;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (static_cast<std::uint64_t>(sorted[middle]) < bucket) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

__global__ void mean_of_buckets_kernel(const float* __restrict__ values, std::uint64_t n,
                                       const std::int32_t* __restrict__ sorted, const std::int64_t* __restrict__ order,
                                       std::uint64_t count, float* __restrict__ means) {
  for (std::uint64_t bucket = thread_of_grid(); bucket < count; bucket += threads_of_grid()) {
    const std::uint64_t begin = first_of(sorted, n, bucket);
    double sum = 0;
    std::uint64_t end = begin;
    for (; end < n && static_cast<std::uint64_t>(sorted[end]) == bucket; ++end) {
      sum += static_cast<double>(values[order[end]]);
    }
    means[bucket] = end == begin ? 0.0F : static_cast<float>(sum / static_cast<double>(end - begin));
  }
}

}  // namespace

Result<void> place_entries(const float* values, std::uint64_t n, const Clusters& clusters, std::byte* ids,
                           std::int32_t* buckets, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  const Segments segments(n);
  return launch("place_entries", place_entries_kernel, shape_for_segments(segments), stream, values, n, clusters,
                segments, ids, buckets, report);
}

Result<void> add_by_bucket(const std::byte* ids, const float* means, std::uint64_t n, const Clusters& clusters,
                           float weight, float* sum, StreamHandle stream) {
  if (n == 0) return {};
  const Segments segments(n);
  return launch("add_by_bucket", add_by_bucket_kernel, shape_for_segments(segments), stream, ids, means, n, clusters,
                segments, weight, sum);
}

Result<void> mean_of_buckets(const float* values, std::uint64_t n, const std::int32_t* sorted,
                             const std::int64_t* order, std::uint64_t count, float* means, StreamHandle stream) {
  if (count == 0) return {};
  return launch("mean_of_buckets", mean_of_buckets_kernel, shape_for(count, 1), stream, values, n, sorted, order, count,
                means);
}

}  // namespace weir::cuda
