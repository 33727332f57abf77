#include "collectives/topologies/topology.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"
#include "collectives/topologies/binary_tree.hpp"
#include "collectives/topologies/direct.hpp"
#include "collectives/topologies/ring.hpp"

namespace weir::collectives {

std::string_view name_of(Gathers gathers) {
  switch (gathers) {
    case Gathers::all: return "all";
    case Gathers::owners: return "owners";
    case Gathers::regions: return "regions";
    case Gathers::partners: return "partners";
  }
  return "";
}

namespace {

/// Sends the bundles of `count` members, beginning with `first`.
Task<> send_bundles(Communicator& group, std::uint32_t to, std::uint32_t first, std::uint32_t count,
                    const Gathered& gathered, FunctionRef<std::uint32_t(std::uint32_t)> begin_of, Subject about) {
  SendWindow<8> outgoing;
  std::size_t sent = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t member = (first + i) % group.size();
    for (std::uint32_t number = begin_of(member); number < begin_of(member + 1); ++number, ++sent) {
      if (auto room = co_await outgoing.make_room(sent); !room) co_return room.error();
      Subject part = about;
      part.part += number;
      outgoing.at(sent).emplace(group, to, part, view_of(group, gathered, number));
    }
  }
  co_return co_await outgoing.finish();
}

}  // namespace

Result<void> Topology::expect_within_limit(BytesView own, const Gathered& gathered) const {
  if (own.size() <= gathered.bytes_max) return {};
  return Error{Errc::invalid_argument, "a payload of " + std::to_string(own.size()) + " bytes exceeds the limit of " +
                                           std::to_string(gathered.bytes_max)};
}

Result<void> Topology::keep_own(BytesView own, Gathered& gathered) const {
  if (auto within = expect_within_limit(own, gathered); !within) return within;
  make_room(group_, gathered, ranks());
  if (!group_.carries_data()) {
    gathered.lengths[rank()] = own.size();
    return {};
  }
  Bytes& mine = gathered.payloads[rank()];
  mine.clear();
  append(mine, own);
  return {};
}

Result<void> Topology::expect_countable(ReduceOp op, Element element) const {
  if (ranks() <= ranks_max(op, element)) return {};
  return Error{Errc::unsupported, "a majority of " + std::to_string(ranks()) +
                                      " ranks, and numbers of this type count " +
                                      std::to_string(ranks_max(op, element)) + " at most"};
}

Task<> Topology::all_reduce(Buffer values, ReduceOp op, Subject about) {
  if (auto countable = expect_countable(op, values.element); !countable) co_return countable.error();
  prepare(op, values.element, values.bytes, ranks());
  if (auto done = co_await combine_all(values, op, about); !done) co_return done.error();
  conclude(op, values.element, values.bytes, ranks());
  co_return Result<void>();
}

Task<> Topology::reduce_scatter(Buffer values, ReduceOp op, Subject about) {
  if (auto countable = expect_countable(op, values.element); !countable) co_return countable.error();
  prepare(op, values.element, values.bytes, ranks());
  if (auto done = co_await Ring::reduce_around(group_, values, op, about); !done) co_return done.error();
  conclude(op, values.element, chunk_of(values, ranks(), rank()).bytes, ranks());
  co_return Result<void>();
}

Task<> Topology::all_gather(ConstBuffer own, Gathered& gathered, Subject about) {
  if (auto kept = keep_own(own.bytes, gathered); !kept) co_return kept.error();
  const auto begin_of = [](std::uint32_t member) { return member; };
  co_return co_await gather_bundles(group_, gathered, begin_of, about);
}

Task<> Topology::gather_bundles(Communicator& group, Gathered& gathered,
                                FunctionRef<std::uint32_t(std::uint32_t)> begin_of, Subject about) {
  const std::uint32_t rank = group.rank();
  const std::uint32_t ranks = group.size();
  // This member has the bundles of the `distance` members that begin with itself.
  for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
    const std::uint32_t count = std::min(distance, ranks - distance);
    const std::uint32_t to = (rank + ranks - distance) % ranks;
    const std::uint32_t from = (rank + distance) % ranks;
    Task<> sending = send_bundles(group, to, rank, count, gathered, begin_of, about);
    sending.start();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t member = (from + i) % ranks;
      for (std::uint32_t number = begin_of(member); number < begin_of(member + 1); ++number) {
        Subject part = about;
        part.part += number;
        Collector collector(group, gathered, number);
        Receive arrival(group, from, part, collector);
        if (auto done = co_await arrival; !done) co_return done.error();
      }
    }
    if (auto done = co_await sending; !done) co_return done.error();
  }
  co_return Result<void>();
}

Cost Topology::all_gather_cost(std::uint32_t ranks, double bytes) {
  return {.alpha = static_cast<double>(std::bit_width(ranks - 1)), .beta = (ranks - 1) * bytes, .gamma = 0};
}

Task<> Topology::all_to_all(std::span<const ConstBuffer> outgoing, Gathered& incoming, Subject about) {
  const auto payload = [&](std::uint32_t to) { return outgoing[to]; };
  co_return co_await send_payloads(payload, ranks(), incoming, about);
}

Task<> Topology::to_owners(std::span<const BytesView> outgoing, Gathered& incoming, Subject about) {
  const auto payload = [&](std::uint32_t to) -> ConstBuffer { return outgoing[to]; };
  co_return co_await send_payloads(payload, owners(), incoming, about);
}

/// To each of the first `receivers` ranks its payload; the function must outlive the task.
Task<> Topology::send_payloads(FunctionRef<ConstBuffer(std::uint32_t)> payload, std::uint32_t receivers,
                               Gathered& incoming, Subject about) {
  const bool receives = rank() < receivers;
  if (receives) {
    if (auto kept = keep_own(payload(rank()).bytes, incoming); !kept) co_return kept.error();
  }
  Task<> sending = send_to_each(group_, receivers, payload, about);
  sending.start();
  for (std::uint32_t distance = 1; receives && distance < ranks(); ++distance) {
    const std::uint32_t from = before(group_, distance);
    Collector collector(group_, incoming, from);
    Receive arrival(group_, from, about, collector);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  co_return co_await sending;
}

Task<> Topology::from_owners(BytesView own, Gathered& gathered, Subject about) {
  if (auto kept = keep_own(own, gathered); !kept) co_return kept.error();
  const bool owns = rank() < owners();
  const auto payload = [&](std::uint32_t) -> ConstBuffer { return own; };
  Task<> sending = send_to_each(group_, ranks(), payload, about);
  if (owns) sending.start();
  for (std::uint32_t distance = 1; distance < ranks(); ++distance) {
    const std::uint32_t from = before(group_, distance);
    if (from >= owners()) continue;
    Collector collector(group_, gathered, from);
    Receive arrival(group_, from, about, collector);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  if (owns) co_return co_await sending;
  co_return Result<void>();
}

Task<> Topology::swap(BytesView outgoing, std::uint32_t partner, Gathered& incoming, Subject about) {
  if (auto within = expect_within_limit(outgoing, incoming); !within) co_return within.error();
  make_room(group_, incoming, ranks());
  Send sent(group_, partner, about, outgoing);
  Collector collector(group_, incoming, partner);
  Receive arrival(group_, partner, about, collector);
  if (auto done = co_await arrival; !done) co_return done.error();
  co_return co_await sent;
}

Task<> Topology::broadcast(Buffer values, std::uint32_t root, Subject about) {
  const auto rank_at = [&](std::uint32_t position) { return (position + root) % ranks(); };
  const TreeNode node = tree_node((rank() + ranks() - root) % ranks(), ranks());
  std::array<std::optional<Send>, 2> down;
  Onward onward;
  for (std::size_t c = 0; c < 2; ++c) {
    if (!node.children[c]) continue;
    const std::size_t ready = node.parent ? 0 : values.bytes.size();
    onward.sends[c] = &down[c].emplace(group_, rank_at(*node.children[c]), about, values, ready);
  }
  if (node.parent) {
    Filler filler(values.bytes, onward);
    Receive arrival(group_, rank_at(*node.parent), about, filler);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
  for (auto& sent : down) {
    if (!sent) continue;
    if (auto done = co_await *sent; !done) co_return done.error();
  }
  co_return Result<void>();
}

Cost Topology::to_root_and_back_cost(std::uint32_t ranks, double bytes) {
  if (ranks == 1) return {};
  const double children = ranks > 3 ? 2 : 1;
  return {.alpha = 2.0 * std::bit_width(ranks - 1), .beta = 2 * children * bytes, .gamma = children * bytes};
}

Task<> Topology::combine_to(Buffer values, std::uint32_t root, ReduceOp op, Subject about) {
  const auto rank_at = [&](std::uint32_t position) { return (position + root) % ranks(); };
  const TreeNode node = tree_node((rank() + ranks() - root) % ranks(), ranks());
  std::optional<Send> up;
  if (node.parent) {
    up.emplace(group_, rank_at(*node.parent), about, values, node.leaf() ? values.bytes.size() : 0);
  }
  std::array<std::optional<Combiner>, 2> combiners;
  std::array<std::optional<Receive>, 2> arrivals;
  Onward combined{.sends = {up ? &*up : nullptr, nullptr}};
  // The last child first: it waits for the one before it, so that the order of the additions is always the same.
  for (std::size_t c = 2; c-- > 0;) {
    if (!node.children[c]) continue;
    combiners[c].emplace(op, values.element, values.bytes, combined);
    arrivals[c].emplace(group_, rank_at(*node.children[c]), about, *combiners[c], c == 0 ? Receive::everything : 0);
    combined = {.follower = &*arrivals[c]};
  }
  for (auto& arrival : arrivals) {
    if (!arrival) continue;
    if (auto done = co_await *arrival; !done) co_return done.error();
  }
  if (up) co_return co_await *up;
  co_return Result<void>();
}

}  // namespace weir::collectives
