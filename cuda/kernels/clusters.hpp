#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/sketching/clusters.hpp, of whole tensors. All pointers are to the device's memory.

/// As the twin of the same name; `tables` says where each cluster's buckets begin among those of all.
struct Clusters {
  unsigned bits = 1;
  float thresholds[14] = {};
  std::uint32_t sizes[16] = {};
  std::uint32_t tables[16] = {};
  std::uint32_t salt = 0;
};

/// Finds the cluster of each of n entries and its bucket, as place_block() does. Raises report->largest. Per entry: 4
/// bytes read, 5 written.
Result<void> place_entries(const float* values, std::uint64_t n, const Clusters& clusters, std::byte* ids,
                           std::int32_t* buckets, Report* report, StreamHandle stream);

/// The mean of the entries in each of `count` buckets, 0 of an empty one, as ClusterTable::mean(). `sorted` are the
/// buckets of all n entries, ascending, and `order` which entries these are, those of one bucket in their order, in
/// which they are added up. A thread takes a bucket. Per entry: 12 bytes read, and one sector of 32.
Result<void> mean_of_buckets(const float* values, std::uint64_t n, const std::int32_t* sorted,
                             const std::int64_t* order, std::uint64_t count, float* means, StreamHandle stream);

/// Twin of expand_block(), given packed ids (pack.hpp): sum += weight * the mean of each entry's bucket. Per entry: 4
/// bytes and `bits` bits read, one sector of 32 of the means, 4 bytes written.
Result<void> add_by_bucket(const std::byte* ids, const float* means, std::uint64_t n, const Clusters& clusters,
                           float weight, float* sum, StreamHandle stream);

}  // namespace weir::cuda
