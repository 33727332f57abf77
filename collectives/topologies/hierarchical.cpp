#include "collectives/topologies/hierarchical.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"

namespace weir::collectives {
namespace {

// What an operation's messages within the host and between hosts have in their subjects.
constexpr std::uint32_t part_between = 1024;
constexpr std::uint32_t part_down = 2048;

std::vector<std::vector<std::uint32_t>> hosts_of(const Communicator& group) {
  std::map<std::uint32_t, std::size_t> index;
  std::vector<std::vector<std::uint32_t>> hosts;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    const auto [at, first] = index.try_emplace(group.host_of(rank), hosts.size());
    if (first) hosts.emplace_back();
    hosts[at->second].push_back(rank);
  }
  return hosts;
}

std::size_t index_of(std::uint32_t rank, const std::vector<std::vector<std::uint32_t>>& hosts) {
  const auto own = std::ranges::find_if(hosts, [&](const auto& ranks) { return std::ranges::count(ranks, rank) > 0; });
  return static_cast<std::size_t>(own - hosts.begin());
}

Subject shifted(Subject about, std::uint32_t parts) {
  about.part += parts;
  return about;
}

/// Payloads one after the other, each behind its length.
void pack(const std::vector<Bytes>& payloads, Bytes& out) {
  out.clear();
  for (const Bytes& payload : payloads) {
    const std::uint64_t length = payload.size();
    append(out, std::as_bytes(std::span(&length, 1)));
    append(out, payload);
  }
}

Result<void> unpack(BytesView packed, const std::vector<std::uint32_t>& ranks, Gathered& into) {
  for (const std::uint32_t rank : ranks) {
    std::uint64_t length = 0;
    if (packed.size() < sizeof length) return Error{Errc::malformed, "the payloads of a host are cut off"};
    std::memcpy(&length, packed.data(), sizeof length);
    packed = packed.subspan(sizeof length);
    if (length > packed.size() || length > into.bytes_max) {
      return Error{Errc::malformed, "a payload of rank " + std::to_string(rank) + " of " + std::to_string(length) +
                                        " bytes among those of its host"};
    }
    into.payloads[rank].clear();
    append(into.payloads[rank], packed.first(length));
    packed = packed.subspan(length);
  }
  if (!packed.empty()) return Error{Errc::malformed, "more bytes than the payloads of a host"};
  return {};
}

}  // namespace

Hierarchical::Hierarchical(Communicator& group)
    : Topology(group),
      hosts_(hosts_of(group)),
      own_host_(index_of(group.rank(), hosts_)),
      host_(group, hosts_[own_host_]),
      within_(host_),
      around_(host_) {
  if (!leads()) return;
  std::vector<std::uint32_t> leaders;
  for (const auto& ranks : hosts_) leaders.push_back(ranks.front());
  leaders_.emplace(group, std::move(leaders));
  between_.emplace(*leaders_);
}

Task<> Hierarchical::combine_all(Buffer values, ReduceOp op, Subject about) {
  if (values.bytes.empty()) co_return Result<void>();
  if (auto done = co_await within_.combine_to(values, 0, op, about); !done) co_return done.error();
  if (leads()) {
    auto combined = between_->combine_all(values, op, shifted(about, part_between));
    if (auto done = co_await combined; !done) co_return done.error();
  }
  co_return co_await within_.broadcast(values, 0, shifted(about, part_down));
}

Task<> Hierarchical::all_gather(BytesView own, Gathered& gathered, Subject about) {
  if (auto kept = keep_own(own, gathered); !kept) co_return kept.error();
  of_host_.bytes_max = gathered.bytes_max;
  if (auto done = co_await around_.all_gather(own, of_host_, about); !done) co_return done.error();

  const std::size_t largest = std::ranges::max(hosts_, {}, &std::vector<std::uint32_t>::size).size();
  packed_.bytes_max = largest * (gathered.bytes_max + sizeof(std::uint64_t));
  packed_.payloads.resize(hosts_.size());
  pack(of_host_.payloads, packed_.payloads[own_host_]);
  if (leads()) {
    const Bytes own_host = packed_.payloads[own_host_];
    auto exchanged = between_->all_gather(own_host, packed_, shifted(about, part_between));
    if (auto done = co_await exchanged; !done) co_return done.error();
  }
  if (auto done = co_await hand_down(shifted(about, part_down)); !done) co_return done.error();
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (auto done = unpack(packed_.payloads[host], hosts_[host], gathered); !done) co_return done.error();
  }
  co_return Result<void>();
}

/// Gives the payloads of the other hosts to the ranks of this one.
Task<> Hierarchical::hand_down(Subject about) {
  for (std::size_t host = 0; host < hosts_.size(); ++host, ++about.part) {
    if (host == own_host_) continue;
    Bytes& packed = packed_.payloads[host];
    if (!leads()) {
      Collector collector(packed, packed_.bytes_max);
      Receive arrival(host_, 0, about, collector);
      if (auto done = co_await arrival; !done) co_return done.error();
      continue;
    }
    SendWindow<8> outgoing;
    for (std::uint32_t neighbour = 1; neighbour < host_.size(); ++neighbour) {
      if (auto room = co_await outgoing.make_room(neighbour); !room) co_return room.error();
      outgoing.at(neighbour).emplace(host_, neighbour, about, packed);
    }
    if (auto done = co_await outgoing.finish(); !done) co_return done.error();
  }
  co_return Result<void>();
}

}  // namespace weir::collectives
