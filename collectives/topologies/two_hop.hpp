#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// Each rank owns a share of the values: in the first hop it receives all ranks' payloads for it, in the second it
/// sends all ranks what it makes of them. Payloads that cannot be added up are encoded again in between, so that a rank
/// sends about twice its payload, however many ranks there are; gathered, it would be P - 1 times.
class TwoHop final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "two_hop";
  static constexpr std::string_view summary =
      "each worker averages a share of the gradients and sends it on, compressed again; for compressors that send "
      "every "
      "entry, and many workers";
  static constexpr GroupSize group_size = GroupSize::any;
  static constexpr Gathers gathers = Gathers::owners;

  /// P-1 messages at once, twice; as few bytes as a ring.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  /// A message to and from each owner, all at once, and the same bytes as an all-reduce of that many.
  static Cost by_owners_cost(std::uint32_t ranks, double bytes);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
