#include "collectives/topologies/multi_hop.hpp"

#include "collectives/topologies/halving.hpp"

namespace weir::collectives {

Cost MultiHop::by_owners_cost(std::uint32_t ranks, double bytes) {
  Cost cost = all_reduce_cost(ranks, bytes);
  cost.gamma = 0;
  return cost;
}

Hop MultiHop::hop(std::uint32_t rank, std::uint32_t ranks, std::uint32_t number) {
  const std::uint32_t owners = ranks >> (number + 1);
  const std::uint32_t kept = rank & ~(owners - 1);
  return {.partner = rank ^ owners, .given = kept ^ owners, .kept = kept, .owners = owners};
}

Task<> MultiHop::combine_all(Buffer values, ReduceOp op, Subject about) {
  return combine_by_halving(group_, values, op, about);
}

Task<> MultiHop::from_owners(BytesView own, Gathered& gathered, Subject about) {
  return all_gather(own, gathered, about);
}

}  // namespace weir::collectives
