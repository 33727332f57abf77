#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir::training {

/// Parameters whose gradients are exchanged together.
struct Bucket {
  std::vector<std::uint32_t> parameters;  ///< positions in the model
  bool coded = false;                     ///< exchanged through the compressor; if not, as plain floats
  std::uint32_t group = 0;                ///< buckets of one group are exchanged in one step
  bool averaged = false;                  ///< has the mean of its values, whatever the aggregation of others

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

/// The size of one parameter, for plan_buckets().
struct ParameterSize {
  std::uint64_t bytes = 0;
  bool coded = false;
  bool averaged = false;  ///< in a bucket of such; never coded
};

struct BucketSizes {
  /// Of the first bucket, so that the exchange starts early in the backward pass, and at most of the last one, with
  /// which nothing computes any more.
  std::uint64_t first_bytes = 1 << 20;
  std::uint64_t bytes = 25 << 20;
};

/// Sizes of which `auto` chooses one, the largest first, from four times the usual ones on: the larger the buckets, the
/// fewer messages; the smaller, the more overlaps.
std::vector<BucketSizes> sizes_around(const BucketSizes& usual);

/// Fills buckets in the reverse order of the parameters, the order in which the backward pass completes their gradients
/// (as PyTorch's DDP does). A bucket is closed when it has reached its size; the last one is divided in two if it is
/// larger than the first should be. If a model has coded parameters, its plain ones are few and small, and share one
/// bucket, the last. Those that are averaged beside others share one before that. The last bucket is always a plain
/// one, possibly without parameters: it carries the votes. Every parameter is in exactly one bucket.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketSizes& sizes);
/// The same for each group of parameters, one group after the other. `groups`: by parameter, numbered from 0 without
/// gaps; empty: all are in one.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketSizes& sizes,
                                 std::span<const std::uint32_t> groups);

}  // namespace weir::training
