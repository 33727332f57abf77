#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/subgroup.hpp"

namespace weir::collectives {

/// The ranks of a group by the hosts they run on (Communicator::host_of). The first rank of each host is its leader.
class Hosts {
 public:
  /// `group` must outlive it.
  explicit Hosts(Communicator& group);

  /// The ranks of each host, in the order of their leaders.
  const std::vector<std::vector<std::uint32_t>>& ranks() const { return ranks_; }
  std::size_t count() const { return ranks_.size(); }

  /// The position of this rank's host.
  std::size_t own() const { return own_; }
  /// The ranks of this host; rank 0 of them is the leader.
  SubGroup& neighbours() { return neighbours_; }
  const SubGroup& neighbours() const { return neighbours_; }

  /// Whether this rank is the leader of its host.
  bool leads() const { return leaders_.has_value(); }
  /// The leaders of all hosts; of a leader only.
  SubGroup& leaders() { return *leaders_; }

 private:
  const std::vector<std::vector<std::uint32_t>> ranks_;
  const std::size_t own_;
  SubGroup neighbours_;
  std::optional<SubGroup> leaders_;
};

}  // namespace weir::collectives
