#include "collectives/topologies/butterfly.hpp"

#include <bit>

#include "collectives/topologies/halving.hpp"

namespace weir::collectives {

Task<> Butterfly::combine_all(Buffer values, ReduceOp op, Subject about) {
  const Halving all{.values = values, .chunks = ranks(), .first = 0, .size = ranks()};
  if (auto done = co_await reduce_by_halving(group_, all, op, about); !done) co_return done.error();
  about.part += 64;  // above the halving's
  co_return co_await gather_by_doubling(group_, all, about);
}

Cost Butterfly::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  return {.alpha = 2.0 * (std::bit_width(ranks) - 1), .beta = 2 * share * bytes, .gamma = share * bytes};
}

}  // namespace weir::collectives
