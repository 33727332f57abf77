#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// The butterfly for any number of ranks (Rabenseifner 2004): the ranks are cut into blocks whose sizes are powers of
/// two, the largest first. Each block combines its values by recursive halving and gives them to the next larger block;
/// the results come back the same way.
class BinaryBlocks final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "binary_blocks";
  static constexpr std::string_view summary = "the butterfly for any number of workers, in blocks of powers of two";
  static constexpr GroupSize group_size = GroupSize::any;

  /// As a butterfly of the largest block, and the messages between blocks: those of the smallest, of s ranks, carry 1/s
  /// of the bytes each way. Cheap where the smallest block is large.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
