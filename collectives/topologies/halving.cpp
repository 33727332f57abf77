#include "collectives/topologies/halving.hpp"

#include "collectives/receivers.hpp"

namespace weir::collectives {

Buffer Halving::share(std::uint32_t place, std::uint32_t count) const {
  const std::uint32_t chunks_each = chunks / size;
  const auto begin = chunk_of(values, chunks, place * chunks_each).bytes;
  const auto end = chunk_of(values, chunks, (place + count) * chunks_each - 1).bytes;
  return {{begin.data(), end.data() + end.size()}, values.element, values.device};
}

Task<> reduce_by_halving(Communicator& group, Halving block, ReduceOp op, Subject about) {
  const std::uint32_t place = group.rank() - block.first;
  for (std::uint32_t distance = block.size / 2; distance > 0; distance /= 2, ++about.part) {
    const std::uint32_t other = block.first + (place ^ distance);
    const std::uint32_t keep = place & ~(distance - 1);
    Send sent(group, other, about, block.share(keep ^ distance, distance));
    Combiner combiner(op, block.values.element, block.share(keep, distance).bytes);
    Receive arrival(group, other, about, combiner);
    if (auto done = co_await arrival; !done) co_return done.error();
    if (auto done = co_await sent; !done) co_return done.error();
  }
  co_return Result<void>();
}

Task<> gather_by_doubling(Communicator& group, Halving block, Subject about) {
  const std::uint32_t place = group.rank() - block.first;
  for (std::uint32_t distance = 1; distance < block.size; distance *= 2, ++about.part) {
    const std::uint32_t other = block.first + (place ^ distance);
    const std::uint32_t have = place & ~(distance - 1);
    Send sent(group, other, about, block.share(have, distance));
    Filler filler(block.share(have ^ distance, distance).bytes);
    Receive arrival(group, other, about, filler);
    if (auto done = co_await arrival; !done) co_return done.error();
    if (auto done = co_await sent; !done) co_return done.error();
  }
  co_return Result<void>();
}

Task<> combine_by_halving(Communicator& group, Buffer values, ReduceOp op, Subject about) {
  const Halving all{.values = values, .chunks = group.size(), .first = 0, .size = group.size()};
  if (auto done = co_await reduce_by_halving(group, all, op, about); !done) co_return done.error();
  about.part += 64;  // above the halving's
  co_return co_await gather_by_doubling(group, all, about);
}

}  // namespace weir::collectives
