#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"

namespace weir::compressors {

inline constexpr unsigned cluster_bits_max = 4;
inline constexpr std::size_t clusters_max = std::size_t{1} << cluster_bits_max;
inline constexpr std::size_t cluster_buckets_min = 10;  ///< in a cluster's table, for each segment

/// Entries per block. A multiple of 8, so that the packed ids of a block fill whole bytes; small, so that prefetching
/// one block ahead spreads the memory traffic evenly.
inline constexpr std::size_t cluster_block = 256;

/// Divides a tensor's entries into segments of about 2^18 entries, each a whole number of blocks. The hash buckets of
/// one segment fit the first-level cache, and no two segments share a bucket, so threads can work on them in parallel.
class Segments {
 public:
  explicit Segments(std::uint64_t entries)
      : entries_(entries), blocks_((entries + cluster_block - 1) / cluster_block), count_(blocks_ / most + 1) {}

  std::size_t count() const { return count_; }
  /// The first entry of segment `s`; begin(count()) is the end of the last segment.
  std::size_t begin(std::size_t s) const { return std::min(entries_, blocks_ * s / count_ * cluster_block); }

 private:
  static constexpr std::size_t most = (std::size_t{1} << 18) / cluster_block;  // blocks

  std::size_t entries_;
  std::size_t blocks_;
  std::size_t count_;
};

/// A partition of the floats into 2^bits clusters: half of them for each sign (minus zero counts as negative), divided
/// by thresholds on the magnitude. The highest bit of a cluster's id is the sign; the other bits are the number of
/// thresholds that the magnitude reaches. Each cluster has a hash table; the tables are stored in the order of the ids.
struct Clusters {
  unsigned bits = 1;  ///< at most cluster_bits_max
  /// Magnitudes in ascending order: 2^(bits - 1) - 1 of the positive clusters, then as many of the negative ones.
  std::array<float, clusters_max - 2> thresholds{};
  std::array<std::uint32_t, clusters_max> sizes{};  ///< of the tables, in buckets; at least 1

  std::size_t count() const { return std::size_t{1} << bits; }
  std::size_t thresholds_per_sign() const { return count() / 2 - 1; }
  std::size_t buckets() const;
  /// Enlarges tables so that each has at least cluster_buckets_min buckets per segment.
  void cover(const Segments& segments);
  bool operator==(const Clusters&) const = default;
};

/// The distance between those of so many values that train_clusters() is to read: a sample of about 100,000.
std::size_t cluster_sample_stride(std::size_t values);

/// Fits clusters to every `stride`-th value; zeros and values that are not finite are left out.
///
/// For each sign, the magnitudes above the 95th percentile form one cluster (the tail), whose center is that
/// percentile; with bits = 1 there is one cluster per sign and nothing to fit. The other centers come from Lloyd's
/// iteration, started at quantiles of equal share. An entry belongs to the nearest center.
///
/// The total of about `buckets` is divided among the tables in proportion to entropy (over five bins of equal width;
/// that of the tail counts three times) * mean / largest mean of the sign * density, with at least cluster_buckets_min
/// each. Returns false if no usable value was in the sample: everything then belongs to the lowest clusters, which get
/// the smallest tables. Uses only integers and single operations on doubles, so every processor finds the same
/// clusters.
bool train_clusters(std::span<const float> values, std::size_t stride, unsigned bits, std::size_t buckets,
                    Clusters& clusters);

/// Sum and count of the entries in each hash bucket of a tensor's clusters.
class ClusterTable {
 public:
  explicit ClusterTable(std::size_t buckets = 0) : cells_(buckets) {}

  /// Makes this an empty table of as many buckets.
  void reset(std::size_t buckets) { cells_.assign(buckets, {}); }
  std::size_t size() const { return cells_.size(); }
  std::uint32_t count(std::size_t bucket) const { return cells_[bucket].count; }
  /// The mean of the entries in the bucket, 0 if it is empty.
  float mean(std::size_t bucket) const;

  void add(std::size_t bucket, double sum, std::uint32_t count) {
    cells_[bucket].sum += sum;
    cells_[bucket].count += count;
  }
  /// Adds values[i] to bucket buckets[i], for every i.
  void add(std::span<const std::uint32_t> buckets, std::span<const float> values);
  /// Adds the sums and counts of `other`, whose entries were placed with the same clusters and salt.
  void merge(const ClusterTable& other);

 private:
  struct Cell {
    double sum = 0;
    std::uint32_t count = 0;
  };
  std::vector<Cell> cells_;
};

/// The mapping of one segment's entries to buckets. In a table of n buckets, segment s of S owns the buckets from
/// b = floor(n s / S) up to e = floor(n (s + 1) / S); entry i goes to bucket b + floor(mix32(i ^ salt) (e - b) / 2^32).
struct Placing {
  Placing(const Clusters& clusters, std::uint32_t salt, const Segments& segments, std::size_t segment);

  Clusters clusters;
  std::uint32_t salt;
  std::array<std::uint32_t, clusters_max> begins{};  ///< of the segment's buckets, among those of all tables
  std::array<std::uint32_t, clusters_max> sizes{};   ///< how many there are
};

/// Adds the entries of a block, which starts at entry `first` of the tensor, to the table, and writes their cluster
/// ids. Returns the largest magnitude(). If that is magnitude_infinite or more, a value was NaN or infinite and the
/// caller must discard the table.
std::uint32_t place_block(std::span<const float> values, std::uint32_t first, const Placing& placing,
                          ClusterTable& table, std::span<std::uint8_t> ids);

/// sum += weight * means[bucket of each entry]. Ids are below placing.clusters.count().
void expand_block(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<const float> means, float weight, std::span<float> sum);

}  // namespace weir::compressors
