#include "collectives/topologies/catalog.hpp"

#include <algorithm>
#include <array>
#include <concepts>

#include "collectives/topologies/binary_blocks.hpp"
#include "collectives/topologies/butterfly.hpp"
#include "collectives/topologies/checked.hpp"
#include "collectives/topologies/hierarchical.hpp"
#include "collectives/topologies/multi_hop.hpp"
#include "collectives/topologies/parameter_server.hpp"
#include "collectives/topologies/ring.hpp"
#include "collectives/topologies/split_gather.hpp"
#include "collectives/topologies/tree.hpp"
#include "collectives/topologies/two_hop.hpp"

namespace weir::collectives {
namespace {

template <class T>
constexpr bool takes_servers = std::constructible_from<T, Communicator&, std::uint32_t>;

template <class T>
std::unique_ptr<Collective> make(Communicator& group, const TopologyChoice& choice) {
  std::unique_ptr<Collective> made;
  if constexpr (takes_servers<T>) {
    made = std::make_unique<T>(group, choice.servers);
  } else {
    made = std::make_unique<T>(group);
  }
  return std::make_unique<CheckedCollective>(group, T::name, choice.servers, std::move(made));
}

template <class T>
constexpr Cost (*by_owners_cost())(std::uint32_t, double) {
  if constexpr (T::gathers != Gathers::all) return T::by_owners_cost;
  return nullptr;
}

template <class T>
constexpr std::uint32_t streams_to_neighbours() {
  if constexpr (requires { T::streams_to_neighbours; }) return T::streams_to_neighbours;
  return 0;
}

template <class T>
TopologyType type() {
  TopologyType made{.name = T::name,
                    .summary = T::summary,
                    .group_size = T::group_size,
                    .all_reduce_cost = T::all_reduce_cost,
                    .all_gather_cost = T::all_gather_cost,
                    .by_owners_cost = by_owners_cost<T>(),
                    .make_with = make<T>,
                    .gathers = T::gathers,
                    .by_hosts = std::same_as<T, Hierarchical>,
                    .has_servers = takes_servers<T>,
                    .elements = T::elements,
                    .streams_to_neighbours = streams_to_neighbours<T>()};
  if constexpr (takes_servers<T>) {
    made.servers_max = T::servers_max;
    made.servers_summary = T::servers_summary;
  }
  return made;
}

/// Made by cuda::join_nccl().
TopologyType nccl() {
  return {.name = "nccl",
          .summary = "NVIDIA's NCCL between the workers' GPUs, one each; sums in 32 or 16 bits stay in their memory",
          .group_size = GroupSize::any,
          .all_reduce_cost = nullptr,
          .all_gather_cost = nullptr,
          .by_owners_cost = nullptr,
          .make_with = nullptr,
          .on_devices = true,
          .elements = all_elements};
}

}  // namespace

std::span<const TopologyType> all_topologies() {
  static const std::array all{
      type<Ring>(),   type<Butterfly>(), type<BinaryBlocks>(),    type<Tree>(),        type<Hierarchical>(),
      type<TwoHop>(), type<MultiHop>(),  type<ParameterServer>(), type<SplitGather>(), nccl()};
  return all;
}

std::span<const TopologyType> topologies() {
  static const auto made_here = all_topologies().first(
      static_cast<std::size_t>(std::ranges::count(all_topologies(), false, &TopologyType::on_devices)));
  return made_here;
}

const TopologyType* find_topology(std::string_view name) {
  const auto found = std::ranges::find(all_topologies(), name, &TopologyType::name);
  return found == all_topologies().end() ? nullptr : &*found;
}

}  // namespace weir::collectives
