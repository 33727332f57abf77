#include "collectives/topologies/two_hop.hpp"

#include "collectives/topologies/direct.hpp"

namespace weir::collectives {

Cost TwoHop::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  return {.alpha = ranks > 1 ? 2.0 : 0.0, .beta = 2 * others * bytes, .gamma = others * bytes};
}

Task<> TwoHop::combine_all(Buffer values, ReduceOp op, Subject about) {
  if (auto done = co_await reduce_to_owners(group_, values, ranks(), op, about); !done) co_return done.error();
  ++about.part;
  co_return co_await copy_from_owners(group_, values, ranks(), about);
}

}  // namespace weir::collectives
