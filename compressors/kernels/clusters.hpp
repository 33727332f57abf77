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

/// Entries to a block: a multiple of 8, so that packed ids of a block are whole bytes, and few, so that memory that is
/// asked for a block ahead comes evenly.
inline constexpr std::size_t cluster_block = 256;

/// A tensor's entries in parts of about 2^18 and whole blocks: the buckets that one part needs are few enough for a
/// processor's first cache, and no two parts share one, so that they can be worked on at the same time.
class Segments {
 public:
  explicit Segments(std::uint64_t entries)
      : entries_(entries), blocks_((entries + cluster_block - 1) / cluster_block), count_(blocks_ / most + 1) {}

  std::size_t count() const { return count_; }
  /// The first entry of segment `s`; of s = count(), the end of the last.
  std::size_t begin(std::size_t s) const { return std::min(entries_, blocks_ * s / count_ * cluster_block); }

 private:
  static constexpr std::size_t most = (std::size_t{1} << 18) / cluster_block;  // blocks

  std::size_t entries_;
  std::size_t blocks_;
  std::size_t count_;
};

/// A partition of the floats: half of the 2^bits clusters are for each sign (minus zero is negative), and within a sign
/// they are told apart by magnitude. Of the ids the highest bit is the sign, and the rest counts the thresholds that
/// the magnitude reaches. Each cluster has a table of hashed buckets; the tables follow each other in the order of ids.
struct Clusters {
  unsigned bits = 1;  ///< at most cluster_bits_max
  /// Magnitudes, ascending: of the positive clusters, then of the negative; each 2^(bits - 1) - 1.
  std::array<float, clusters_max - 2> thresholds{};
  std::array<std::uint32_t, clusters_max> sizes{};  ///< of the tables, in buckets; at least 1

  std::size_t count() const { return std::size_t{1} << bits; }
  std::size_t thresholds_per_sign() const { return count() / 2 - 1; }
  std::size_t buckets() const;
  /// Gives every table cluster_buckets_min buckets for each segment at least.
  void cover(const Segments& segments);
  bool operator==(const Clusters&) const = default;
};

/// Clusters for what looks like `values`: a sample of about 100 000 of them, zeros and what is not finite left out. Of
/// a sign, the magnitudes above the 95th percentile (with bits = 1 nothing is told apart) are one cluster's, whose
/// center is that percentile; the others are where Lloyd's iteration, begun at equal shares, puts them; an entry
/// belongs to the next center. A cluster's table gets a share of about `buckets` as its entropy (of five bins of equal
/// width; the tail's counts threefold) times its mean over the largest mean of the sign times its density asks for, but
/// cluster_buckets_min at least. False if nothing was left to look at: then all is in the lowest clusters, with the
/// smallest tables. By integers and single operations of doubles alone, so that every processor finds the same.
bool train_clusters(std::span<const float> values, unsigned bits, std::size_t buckets, Clusters& clusters);

/// What fell into the buckets of one tensor's clusters.
class ClusterTable {
 public:
  explicit ClusterTable(std::size_t buckets = 0) : cells_(buckets) {}

  std::size_t size() const { return cells_.size(); }
  std::uint32_t count(std::size_t bucket) const { return cells_[bucket].count; }
  /// Of the entries in it, or 0.
  float mean(std::size_t bucket) const;

  void add(std::size_t bucket, double sum, std::uint32_t count) {
    cells_[bucket].sum += sum;
    cells_[bucket].count += count;
  }
  /// Adds one entry for each value.
  void add(std::span<const std::uint32_t> buckets, std::span<const float> values);
  /// Makes this the table of the entries of both. They must have been put into buckets by the same clusters and salt.
  void merge(const ClusterTable& other);

 private:
  struct Cell {
    double sum = 0;
    std::uint32_t count = 0;
  };
  std::vector<Cell> cells_;
};

/// Where the entries of one segment go. Of a table of n buckets, segment s of S has those from b = floor(n s / S) up to
/// e = floor(n (s + 1) / S), and among these the bucket of entry i is b + floor(mix32(i ^ salt) (e - b) / 2^32).
struct Placing {
  Placing(const Clusters& clusters, std::uint32_t salt, const Segments& segments, std::size_t segment);

  Clusters clusters;
  std::uint32_t salt;
  std::array<std::uint32_t, clusters_max> begins{};  ///< of the segment's buckets, among those of all tables
  std::array<std::uint32_t, clusters_max> sizes{};   ///< how many there are
};

/// Adds the entries of a block, which are number `first` and following of the tensor, to the table, and gives their
/// ids. The largest magnitude among them comes back: NaN and infinity are above all others; the table then is
/// forgotten.
std::uint32_t place_block(std::span<const float> values, std::uint32_t first, const Placing& placing,
                          ClusterTable& table, std::span<std::uint8_t> ids);

/// sum += weight * means[bucket of each entry]. Ids are below placing.clusters.count().
void expand_block(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<const float> means, float weight, std::span<float> sum);

}  // namespace weir::compressors
