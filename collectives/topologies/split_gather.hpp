#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// The sparse all-reduce of Ok-Topk (Li and Hoefler, PPoPP 2022). Each rank owns a region of the entries. In the first
/// step it receives what all ranks have chosen there, in the second it sends all ranks those of the sums that are among
/// the largest of all regions. Of k entries that each rank has chosen, with two words each for position and value, it
/// sends and receives less than 6k words, however many ranks there are; gathered by all, it would be 2k (P-1).
///
/// This class carries the messages; the regions and what is chosen are training::SplitRound's.
class SplitGather final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "split_gather";
  static constexpr std::string_view summary =
      "each worker adds up the chosen entries of a region and sends the largest sums to all; for compressors that "
      "choose entries, and many workers";
  static constexpr GroupSize group_size = GroupSize::any;
  static constexpr Gathers gathers = Gathers::regions;

  /// As two_hop.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  /// P-1 messages at once, twice. `bytes`: of the k entries of a rank. On the way there it is (P-1)/P of them, or up to
  /// 3/2 as many for an owner; on the way back the same.
  static Cost by_owners_cost(std::uint32_t ranks, double bytes);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
