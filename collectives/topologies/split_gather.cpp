#include "collectives/topologies/split_gather.hpp"

#include "collectives/topologies/direct.hpp"
#include "collectives/topologies/two_hop.hpp"

namespace weir::collectives {

Cost SplitGather::all_reduce_cost(std::uint32_t ranks, double bytes) { return TwoHop::all_reduce_cost(ranks, bytes); }

Cost SplitGather::by_owners_cost(std::uint32_t ranks, double bytes) { return TwoHop::by_owners_cost(ranks, bytes); }

Task<> SplitGather::combine_all(Buffer values, ReduceOp op, Subject about) {
  return combine_by_owners(group_, values, ranks(), op, about);
}

}  // namespace weir::collectives
