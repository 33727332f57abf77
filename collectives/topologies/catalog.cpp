#include "collectives/topologies/catalog.hpp"

#include <algorithm>
#include <array>

#include "collectives/topologies/binary_blocks.hpp"
#include "collectives/topologies/butterfly.hpp"
#include "collectives/topologies/hierarchical.hpp"
#include "collectives/topologies/ring.hpp"
#include "collectives/topologies/tree.hpp"

namespace weir::collectives {
namespace {

template <class T>
TopologyType type() {
  return {T::name,
          T::summary,
          T::group_size,
          T::all_reduce_cost,
          T::all_gather_cost,
          [](Communicator& group) -> std::unique_ptr<Collective> { return std::make_unique<T>(group); }};
}

}  // namespace

std::span<const TopologyType> topologies() {
  static const std::array all{type<Ring>(), type<Butterfly>(), type<BinaryBlocks>(), type<Tree>(),
                              type<Hierarchical>()};
  return all;
}

const TopologyType* find_topology(std::string_view name) {
  const auto found = std::ranges::find(topologies(), name, &TopologyType::name);
  return found == topologies().end() ? nullptr : &*found;
}

}  // namespace weir::collectives
