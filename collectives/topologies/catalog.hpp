#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collectives/collective.hpp"
#include "collectives/communicator.hpp"
#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// What a job says of its topology.
struct TopologyChoice {
  std::string name = "ring";
  std::uint32_t servers = 0;  ///< of a parameter server; 0: one on each rank
};

/// A topology that jobs can name.
struct TopologyType {
  std::string_view name;
  std::string_view summary;
  GroupSize group_size;
  Cost (*all_reduce_cost)(std::uint32_t ranks, double bytes);  ///< null, as the others, with on_devices: not known
  Cost (*all_gather_cost)(std::uint32_t ranks, double bytes);  ///< of payloads of `bytes` bytes each
  /// Of to_owners() (or all hops) and from_owners() together, of payloads of `bytes` bytes for all shares; null if not
  /// by owners.
  Cost (*by_owners_cost)(std::uint32_t ranks, double bytes);
  std::unique_ptr<Collective> (*make_with)(Communicator& group, const TopologyChoice& choice);
  Gathers gathers = Gathers::all;
  /// Gradients are summed within hosts before they are encoded.
  bool by_hosts = false;
  /// What is summed may lie in the memory of GPUs, of which each rank has one. Whoever has the GPUs makes it, not
  /// make().
  bool on_devices = false;
  bool has_servers = false;  ///< takes TopologyChoice::servers
  std::uint32_t servers_max = 0;
  std::string_view servers_summary = {};
  std::span<const Element> elements = {};  ///< that all_reduce() takes
  /// Most messages go to the next ranks: of consecutive ranks only as many at a time send to others than these. 0: all.
  std::uint32_t streams_to_neighbours = 0;

  /// `group` must outlive it.
  std::unique_ptr<Collective> make(Communicator& group, const TopologyChoice& choice = {}) const {
    return make_with(group, choice);
  }
  /// Whether gathered payloads come to owners, who send all ranks what they make of them.
  bool by_owners() const { return gathers != Gathers::all; }
  bool fits(std::uint32_t ranks) const { return group_size == GroupSize::any || std::has_single_bit(ranks); }
};

/// Those that make() makes, over any Communicator; the default first.
std::span<const TopologyType> topologies();

/// Those, and behind them the ones between devices: all that a job can name.
std::span<const TopologyType> all_topologies();

/// One of all_topologies(); null if there is none of that name.
const TopologyType* find_topology(std::string_view name);

}  // namespace weir::collectives
