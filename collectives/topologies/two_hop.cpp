#include "collectives/topologies/two_hop.hpp"

#include "collectives/topologies/direct.hpp"

namespace weir::collectives {

Cost TwoHop::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  return {.alpha = ranks > 1 ? 2.0 : 0.0, .beta = 2 * others * bytes, .gamma = others * bytes};
}

Cost TwoHop::by_owners_cost(std::uint32_t ranks, double bytes) {
  Cost cost = all_reduce_cost(ranks, bytes);
  cost.gamma = 0;
  return cost;
}

Task<> TwoHop::combine_all(Buffer values, ReduceOp op, Subject about) {
  return combine_by_owners(group_, values, ranks(), op, about);
}

}  // namespace weir::collectives
