#pragma once

#include <string_view>

#include "collectives/topologies/topology.hpp"

namespace weir::collectives {

/// Recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005): in each step a rank exchanges with the one at
/// half (or twice) the distance of the step before. As few bytes as a ring, in log P steps; for numbers of ranks that
/// are powers of two.
class Butterfly final : public Topology {
 public:
  using Topology::Topology;

  static constexpr std::string_view name = "butterfly";
  static constexpr std::string_view summary =
      "recursive halving and doubling; as few bytes as a ring in log P steps, for 2, 4, 8, ... workers";
  static constexpr GroupSize group_size = GroupSize::power_of_two;

  /// 2 log2(P) messages of a half, a quarter, ... of the bytes.
  static Cost all_reduce_cost(std::uint32_t ranks, double bytes);

  Task<> combine_all(Buffer values, ReduceOp op, Subject about) override;
};

}  // namespace weir::collectives
