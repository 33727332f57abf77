#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// Rank r sends to r + 1 and receives from r - 1, so that every link carries the same load. What arrives is passed on
/// piece by piece. An all-reduce sends as few bytes as any can (Patarasu and Yuan 2009), but its latency grows with the
/// number of ranks.
class Ring final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "ring";
  static constexpr std::string_view summary =
      "each worker sends to the next; as few bytes as possible, with a latency that grows with the number of workers";
  static constexpr GroupSize group_size = GroupSize::any;
  static constexpr std::uint32_t streams_to_neighbours = 1;

  /// 2 (P-1) messages of 1/P of the bytes, half of which are combined.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  /// Topology::reduce_scatter.
  static Task<> reduce_around(Communicator& group, Buffer values, ReduceOp op, Subject about);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
