#include "collectives/topologies/parameter_server.hpp"

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"
#include "collectives/topologies/direct.hpp"
#include "collectives/topologies/two_hop.hpp"

namespace weir::collectives {

Cost ParameterServer::all_reduce_cost(std::uint32_t ranks, double bytes) {
  return TwoHop::all_reduce_cost(ranks, bytes);
}

Task<> ParameterServer::combine_all(Buffer values, ReduceOp op, Subject about) {
  if (auto done = co_await reduce_to_owners(group_, values, servers_, op, about); !done) co_return done.error();
  ++about.part;
  co_return co_await copy_from_owners(group_, values, servers_, about);
}

Task<> ParameterServer::send_to_servers(std::span<const BytesView> outgoing, Subject about) {
  SendWindow<8> window;
  std::size_t number = 0;
  for (std::uint32_t distance = 1; distance < ranks(); ++distance) {
    const std::uint32_t to = after(group_, distance);
    if (to >= servers_) continue;
    if (auto room = co_await window.make_room(number); !room) co_return room.error();
    window.at(number++).emplace(group_, to, about, outgoing[to]);
  }
  co_return co_await window.finish();
}

Task<> ParameterServer::to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) {
  Task<> sending = send_to_servers(outgoing, about);
  sending.start();
  if (rank() < servers_) {
    if (auto kept = keep_own(outgoing[rank()], incoming); !kept) co_return kept.error();
    for (std::uint32_t distance = 1; distance < ranks(); ++distance) {
      const std::uint32_t from = before(group_, distance);
      Collector collector(incoming.payloads[from], incoming.bytes_max);
      Receive arrival(group_, from, about, collector);
      if (auto done = co_await arrival; !done) co_return done.error();
    }
  }
  co_return co_await sending;
}

Task<> ParameterServer::send_to_all(BytesView own, Subject about) {
  SendWindow<8> window;
  for (std::uint32_t distance = 1; distance < ranks(); ++distance) {
    if (auto room = co_await window.make_room(distance); !room) co_return room.error();
    window.at(distance).emplace(group_, after(group_, distance), about, own);
  }
  co_return co_await window.finish();
}

Task<> ParameterServer::from_owners(BytesView own, Gathered& gathered, Subject about) {
  const bool serves = rank() < servers_;
  Task<> sending = send_to_all(own, about);
  if (serves) sending.start();
  if (auto kept = keep_own(own, gathered); !kept) co_return kept.error();
  for (std::uint32_t distance = 1; distance < ranks(); ++distance) {
    const std::uint32_t from = before(group_, distance);
    if (from >= servers_) continue;
    Collector collector(gathered.payloads[from], gathered.bytes_max);
    Receive arrival(group_, from, about, collector);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  if (serves) co_return co_await sending;
  co_return Result<void>();
}

}  // namespace weir::collectives
