#include "collectives/topologies/butterfly.hpp"

#include <bit>

#include "collectives/topologies/halving.hpp"

namespace weir::collectives {

Task<> Butterfly::combine_all(Buffer values, ReduceOp op, Subject about) {
  return combine_by_halving(group_, values, op, about);
}

Cost Butterfly::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  return {.alpha = 2.0 * (std::bit_width(ranks) - 1), .beta = 2 * share * bytes, .gamma = share * bytes};
}

}  // namespace weir::collectives
