#include "collectives/topologies/parameter_server.hpp"

#include "collectives/topologies/direct.hpp"
#include "collectives/topologies/two_hop.hpp"

namespace weir::collectives {

Cost ParameterServer::all_reduce_cost(std::uint32_t ranks, double bytes) {
  return TwoHop::all_reduce_cost(ranks, bytes);
}

Task<> ParameterServer::combine_all(Buffer values, ReduceOp op, Subject about) {
  return combine_by_owners(group_, values, servers_, op, about);
}

}  // namespace weir::collectives
