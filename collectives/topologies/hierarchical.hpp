#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/hosts.hpp"
#include "collectives/topologies/binary_blocks.hpp"
#include "collectives/topologies/topology.hpp"
#include "collectives/topologies/tree.hpp"

namespace weir::collectives {

/// Within each host first (Communicator::host_of), where memory is shared; then between one rank of each host, its
/// leader, by binary blocks; then within each host again. Each byte leaves a host once, however many ranks it has.
class Hierarchical final : public Topology {
 public:
  explicit Hierarchical(Communicator& group);

  static constexpr std::string_view name = "hierarchical";
  static constexpr std::string_view summary =
      "dense within each host, compressed between one worker of each host; for hosts with several workers";
  static constexpr GroupSize group_size = GroupSize::any;

  /// Where each rank has a host of its own: as binary blocks.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes) { return BinaryBlocks::all_reduce_cost(ranks, bytes); }

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;

  /// Each payload goes to all ranks of its host, from the leader to the others, and from these to their hosts.
  Task<> all_gather(ConstBuffer own, Gathered& gathered, Subject about) override;

 private:
  Task<> hand_down(Subject about);

  Hosts hosts_;
  Tree within_;
  std::optional<BinaryBlocks> between_;  ///< of a leader
  std::vector<std::uint32_t> begins_;    ///< by host: how many ranks the hosts before it have
  Gathered of_host_;                     ///< by rank of the host
  Gathered by_host_;                     ///< those of the first host's ranks, then those of the second's, ...
};

}  // namespace weir::collectives
