#include "cuda/kernels/clusters.hpp"

#include "cuda/kernels/each.cuh"

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
  __device__ std::uint64_t of_entry(std::uint64_t entry) const { return ((entry / block + 1) * count - 1) / blocks; }

  std::uint64_t blocks;
  std::uint64_t count;
};

__global__ void place_entries_kernel(const float* __restrict__ values, std::uint64_t n, Clusters clusters,
                                     Segments segments, std::byte* __restrict__ ids, std::int32_t* __restrict__ buckets,
                                     Report* report) {
  NoteLargest note{report};
  for_each_tile(
      n, 0.0F, [&](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value, bool is_entry) {
        if (!is_entry) return;
        note(value);
        const bool is_negative = __float_as_uint(value) >> 31 != 0;
        const unsigned each = (1U << (clusters.bits - 1)) - 1;
        unsigned id = is_negative ? each + 1 : 0;
        for (unsigned t = 0; t < each; ++t) {
          if (magnitude(value) >= magnitude(clusters.thresholds[is_negative ? each + t : t])) ++id;
        }
        const std::uint64_t segment = segments.of_entry(i);
        const std::uint64_t size = clusters.sizes[id];
        const std::uint64_t begin = size * segment / segments.count;
        const std::uint64_t own = size * (segment + 1) / segments.count - begin;
        const std::uint64_t hash = mix(static_cast<std::uint32_t>(i) ^ clusters.salt);
        ids[i] = static_cast<std::byte>(id);
        buckets[i] = static_cast<std::int32_t>(clusters.tables[id] + begin + (hash * own >> 32));
      });
  note.end();
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
  return launch("place_entries", place_entries_kernel, shape_for_each(n), stream, values, n, clusters, Segments(n), ids,
                buckets, report);
}

Result<void> mean_of_buckets(const float* values, std::uint64_t n, const std::int32_t* sorted,
                             const std::int64_t* order, std::uint64_t count, float* means, StreamHandle stream) {
  if (count == 0) return {};
  return launch("mean_of_buckets", mean_of_buckets_kernel, shape_for(count, 1), stream, values, n, sorted, order, count,
                means);
}

}  // namespace weir::cuda
