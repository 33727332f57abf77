#pragma once

#include <algorithm>
#include <string_view>

#include "collectives/topologies/topology.hpp"
#include "collectives/topologies/two_hop.hpp"

namespace weir::collectives {

/// The first ranks are servers too (Li et al. 2014): each owns a share of the values, receives it from all ranks, and
/// sends all ranks the result. With one server its port carries everything; with as many as ranks, no port carries more
/// than another.
class ParameterServer final : public Topology {
 public:
  /// `servers`: from 1 to the number of ranks; 0: all ranks.
  ParameterServer(Communicator& group, std::uint32_t servers)
      : Topology(group), servers_(servers == 0 ? group.size() : std::min(servers, group.size())) {}

  static constexpr std::string_view name = "parameter_server";
  static constexpr std::string_view summary =
      "some workers are servers too: each averages a share of the gradients and sends it to all, compressed again";
  static constexpr GroupSize group_size = GroupSize::any;
  static constexpr Gathers gathers = Gathers::owners;
  static constexpr std::uint32_t servers_max = 1024;
  static constexpr std::string_view servers_summary = "How many workers are servers too; null: all";

  /// With all ranks as servers. With S servers, the port of one carries 2 (P-1)/S of the bytes.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  static Cost by_owners_cost(std::uint32_t ranks, double bytes) { return TwoHop::by_owners_cost(ranks, bytes); }

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;

  std::uint32_t owners() const override { return servers_; }

 private:
  const std::uint32_t servers_;
};

}  // namespace weir::collectives
