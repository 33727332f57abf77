#include "collectives/topologies/ring.hpp"

#include <optional>

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"

namespace weir::collectives {
namespace {

/// Places on the ring.
struct Place {
  std::uint32_t rank;
  std::uint32_t ranks;

  std::uint32_t next() const { return (rank + 1) % ranks; }
  std::uint32_t previous() const { return before(1); }
  /// The rank `steps` places before this one, for any number of steps.
  std::uint32_t before(std::uint32_t steps) const { return (rank + ranks - steps % ranks) % ranks; }
};

/// While a message arrives and is passed on, the one before it may still be on its way.
using Chain = SendWindow<3>;

/// Chunk c starts at rank c + 1 and picks up each rank's values on its way to rank c, which has the result after P-1
/// steps. In the steps after these the results go on around the ring. It is one chain: what arrives in one step is sent
/// in the next.
Task<> pass_around(Communicator& group, Buffer values, ReduceOp op, Subject about, std::uint32_t steps) {
  const Place self{group.rank(), group.size()};
  if (self.ranks == 1) co_return Result<void>();
  const auto chunk = [&](std::uint32_t step) { return chunk_of(values, self.ranks, self.before(step + 1)); };

  Chain outgoing;
  outgoing.at(0).emplace(group, self.next(), about, chunk(0));
  for (std::uint32_t step = 0; step < steps; ++step, ++about.part) {
    Onward onward;
    if (step + 1 < steps) {
      if (auto room = co_await outgoing.make_room(step + 1); !room) co_return room.error();
      const Subject next{.version = about.version, .bucket = about.bucket, .part = about.part + 1};
      onward.sends[0] = &outgoing.at(step + 1).emplace(group, self.next(), next, chunk(step + 1), 0);
    }
    Combiner combiner(op, values.element, chunk(step + 1).bytes, onward);
    Filler filler(chunk(step + 1).bytes, onward);
    const bool combines = step + 1 < self.ranks;
    Receive arrival(group, self.previous(), about, combines ? static_cast<Receiver&>(combiner) : filler);
    if (auto arrived = co_await arrival; !arrived) co_return arrived.error();
  }
  co_return co_await outgoing.finish();
}

}  // namespace

Task<> Ring::combine_all(Buffer values, ReduceOp op, Subject about) {
  return pass_around(group_, values, op, about, 2 * (ranks() - 1));
}

Task<> Ring::reduce_around(Communicator& group, Buffer values, ReduceOp op, Subject about) {
  return pass_around(group, values, op, about, group.size() - 1);
}

Cost Ring::all_reduce_cost(std::uint32_t ranks, double bytes) {
  const double steps = ranks - 1;
  return {.alpha = 2 * steps, .beta = 2 * steps / ranks * bytes, .gamma = steps / ranks * bytes};
}

}  // namespace weir::collectives
