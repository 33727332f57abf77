#include "collectives/topologies/direct.hpp"

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"

namespace weir::collectives {
namespace {

Task<> send_chunks(Communicator& group, Buffer values, std::uint32_t owners, Subject about) {
  SendWindow<8> outgoing;
  std::size_t number = 0;
  for (std::uint32_t distance = 1; distance < group.size(); ++distance) {
    const std::uint32_t to = after(group, distance);
    if (to >= owners) continue;
    if (auto room = co_await outgoing.make_room(number); !room) co_return room.error();
    outgoing.at(number++).emplace(group, to, about, chunk_of(values, owners, to).bytes);
  }
  co_return co_await outgoing.finish();
}

Task<> send_own_chunk(Communicator& group, Buffer values, std::uint32_t owners, Subject about) {
  SendWindow<8> outgoing;
  for (std::uint32_t distance = 1; distance < group.size(); ++distance) {
    if (auto room = co_await outgoing.make_room(distance); !room) co_return room.error();
    outgoing.at(distance).emplace(group, after(group, distance), about, chunk_of(values, owners, group.rank()).bytes);
  }
  co_return co_await outgoing.finish();
}

}  // namespace

Task<> reduce_to_owners(Communicator& group, Buffer values, std::uint32_t owners, ReduceOp op, Subject about) {
  Task<> sending = send_chunks(group, values, owners, about);
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
  Task<> sending = send_own_chunk(group, values, owners, about);
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

}  // namespace weir::collectives
