#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/subgroup.hpp"
#include "collectives/topologies/binary_blocks.hpp"
#include "collectives/topologies/ring.hpp"
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
      "sums within each host, then between one worker of each host; for hosts with several workers";
  static constexpr GroupSize group_size = GroupSize::any;

  /// Where each rank has a host of its own: as binary blocks.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes) { return BinaryBlocks::all_reduce_cost(ranks, bytes); }

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;

  Task<> all_gather(BytesView own, Gathered& gathered, Subject about) override;

 private:
  bool leads() const { return host_.rank() == 0; }
  Task<> hand_down(Subject about);

  const std::vector<std::vector<std::uint32_t>> hosts_;  ///< the ranks of each host, in the order of their leaders
  const std::size_t own_host_;
  SubGroup host_;  ///< the ranks of this host; its rank 0 is the leader
  Tree within_;
  Ring around_;
  std::optional<SubGroup> leaders_;  ///< of a leader: those of all hosts
  std::optional<BinaryBlocks> between_;
  Gathered of_host_;  ///< by rank of the host
  Gathered packed_;   ///< by host: the payloads of its ranks
};

}  // namespace weir::collectives
