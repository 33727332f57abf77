#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// Two binary trees, each for one half of the values (Sanders, Speck and Traeff 2009): the values are combined on the
/// way up and the result copied on the way down, both piece by piece. A rank that has children in one tree is a leaf of
/// the other, so that all ports carry the same load. For any number of ranks; the latency grows with its logarithm.
class Tree final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "tree";
  static constexpr std::string_view summary =
      "two binary trees, each for a half of the values, piece by piece; a latency of log P, for any number of workers";
  static constexpr GroupSize group_size = GroupSize::any;
  /// A part of a tree hangs on few edges.
  static constexpr std::uint32_t streams_to_neighbours = 2;

  /// Up and down ceil(log2(P)) levels; each port carries twice the bytes.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
