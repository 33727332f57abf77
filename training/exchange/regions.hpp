#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace weir::training {

/// The entries of a bucket cut into consecutive regions, one for each rank, in which the ranks choose about equally
/// many. All ranks have the same regions, because they move them by the same rule and the same numbers: the loads
/// that the owners report. They are kept for rounds_max rounds, or until one has more than 3/2 of its share.
///
/// Ok-Topk averages the ranks' own balanced borders instead. That balances nothing if ranks choose in different places:
/// of two ranks with all their entries in the first or the last hundredth, the average border has all on both sides.
class Regions {
 public:
  /// At first equally long. `entries`: of the bucket.
  Regions(std::uint64_t entries, std::uint32_t ranks);

  std::uint64_t begin(std::uint32_t owner) const { return owner == 0 ? 0 : ends_[owner - 1]; }
  std::uint64_t end(std::uint32_t owner) const { return ends_[owner]; }

  /// Ends a round. `loads`: by owner, how many entries all ranks have chosen in its region.
  void end_round(std::span<const std::uint64_t> loads);

  /// The state as a tensor of integers, for a checkpoint.
  at::Tensor save() const;
  /// Fails with: malformed (not a state of so many entries and ranks).
  Result<void> restore(const at::Tensor& state);

  static constexpr std::uint64_t rounds_max = 64;  ///< as in Ok-Topk
  /// In regions of fewer entries, on average, a load that is far from the others means nothing.
  static constexpr std::uint64_t load_min = 64;

 private:
  static bool uneven(std::span<const std::uint64_t> loads);
  void balance();

  std::vector<std::uint64_t> ends_;   ///< by owner
  std::vector<std::uint64_t> loads_;  ///< by owner: the sum over the rounds since the regions were moved
  std::uint64_t rounds_ = 0;          ///< since then
};

}  // namespace weir::training
