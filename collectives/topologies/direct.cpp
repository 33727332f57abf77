#include "collectives/topologies/direct.hpp"

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"

namespace weir::collectives {

Task<> send_to_each(Communicator& group, std::uint32_t receivers, FunctionRef<ConstBuffer(std::uint32_t)> message,
                    Subject about) {
  SendWindow<8> outgoing;
  std::size_t number = 0;
  for (std::uint32_t distance = 1; distance < group.size(); ++distance) {
    const std::uint32_t to = after(group, distance);
    if (to >= receivers) continue;
    if (auto room = co_await outgoing.make_room(number); !room) co_return room.error();
    outgoing.at(number++).emplace(group, to, about, message(to));
  }
  co_return co_await outgoing.finish();
}

Task<> reduce_to_owners(Communicator& group, Buffer values, std::uint32_t owners, ReduceOp op, Subject about) {
  const auto chunk = [&](std::uint32_t to) -> ConstBuffer { return chunk_of(values, owners, to); };
  Task<> sending = send_to_each(group, owners, chunk, about);
  sending.start();
  if (group.rank() < owners) {
    const Buffer own = chunk_of(values, owners, group.rank());
    for (std::uint32_t distance = 1; distance < group.size(); ++distance) {
      Combiner combiner(op, own.element, own.bytes);
      Receive arrival(group, before(group, distance), about, combiner);
      if (auto done = co_await arrival; !done) co_return done.error();
    }
  }
  co_return co_await sending;
}

Task<> copy_from_owners(Communicator& group, Buffer values, std::uint32_t owners, Subject about) {
  const bool owns = group.rank() < owners;
  const auto chunk = [&](std::uint32_t) -> ConstBuffer { return chunk_of(values, owners, group.rank()); };
  Task<> sending = send_to_each(group, group.size(), chunk, about);
  if (owns) sending.start();
  for (std::uint32_t distance = 1; distance < group.size(); ++distance) {
    const std::uint32_t from = before(group, distance);
    if (from >= owners) continue;
    Filler filler(chunk_of(values, owners, from).bytes);
    Receive arrival(group, from, about, filler);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  if (owns) co_return co_await sending;
  co_return Result<void>();
}

Task<> combine_by_owners(Communicator& group, Buffer values, std::uint32_t owners, ReduceOp op, Subject about) {
  if (auto done = co_await reduce_to_owners(group, values, owners, op, about); !done) co_return done.error();
  ++about.part;
  co_return co_await copy_from_owners(group, values, owners, about);
}

}  // namespace weir::collectives
