#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compressors/compressor.hpp"

namespace weir::training::testing {

/// An entry of a bucket, whose tensors lie one after the other.
struct Entry {
  std::int64_t at = 0;
  float value = 0;
};

/// Entries with ascending positions.
using Entries = std::vector<Entry>;

/// A second implementation of a round by the owners of regions (SplitRound), of one bucket: lists of entries, searched
/// and sorted as the definition says, all ranks in one loop. It decides in every round how many entries a rank may send
/// to an owner and an owner back, and which, and keeps regions and thresholds from one to the next.
class SplitModel {
 public:
  /// `sizes`: by parameter of the bucket, in the bucket's order.
  SplitModel(std::vector<std::pair<std::uint32_t, std::int64_t>> sizes, std::size_t ranks);

  struct Outcome {
    Entries mean;
    std::vector<Entries> sent;         ///< by rank: what it has sent and is in the mean
    std::vector<Entries> corrections;  ///< by rank: what its encoding of sums has changed, times the number of ranks
  };

  /// `chosen`: by rank. `members`: the parameters that are encoded in this step. `compressors`: by rank.
  Outcome step(std::uint64_t number, const std::vector<std::uint32_t>& members, const std::vector<Entries>& chosen,
               const std::vector<compressors::Compressor*>& compressors);

  std::int64_t begin_of(std::uint32_t parameter) const { return begins_.at(parameter); }

 private:
  /// The entries of a parameter in a region.
  struct Part {
    std::uint32_t parameter = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Threshold {
    std::optional<float> least;
    int age = 0;
  };

  std::vector<Part> parts_of(std::size_t owner, const std::vector<std::uint32_t>& members) const;
  void move_regions(const std::vector<std::int64_t>& loads);
  void balance();

  std::vector<std::pair<std::uint32_t, std::int64_t>> sizes_;
  std::map<std::uint32_t, std::int64_t> begins_;
  std::int64_t entries_ = 0;
  std::int64_t ranks_;
  std::vector<std::int64_t> borders_;  ///< where regions begin, and the end of the last
  std::vector<std::int64_t> loads_;
  int age_ = 0;
  std::map<std::uint32_t, Threshold> thresholds_;
};

}  // namespace weir::training::testing
