#include "collectives/topologies/hierarchical.hpp"

#include <utility>
#include <vector>

#include "collectives/receivers.hpp"
#include "collectives/send_window.hpp"

namespace weir::collectives {
namespace {

// What an operation's messages within the host and between hosts have in their subjects.
constexpr std::uint32_t part_between = 1024;
constexpr std::uint32_t part_down = 2048;

Subject shifted(Subject about, std::uint32_t parts) {
  about.part += parts;
  return about;
}

void swap_payloads(Gathered& one, std::size_t at_one, Gathered& other, std::size_t at_other) {
  std::swap(one.payloads[at_one], other.payloads[at_other]);
  if (!one.lengths.empty()) std::swap(one.lengths[at_one], other.lengths[at_other]);
}

}  // namespace

Hierarchical::Hierarchical(Communicator& group) : Topology(group), hosts_(group), within_(hosts_.neighbours()) {
  begins_.push_back(0);
  for (const auto& ranks : hosts_.ranks()) begins_.push_back(begins_.back() + static_cast<std::uint32_t>(ranks.size()));
  if (hosts_.leads()) between_.emplace(hosts_.leaders());
}

Task<> Hierarchical::combine_all(Buffer values, ReduceOp op, Subject about) {
  if (auto done = co_await within_.combine_to(values, 0, op, about); !done) co_return done.error();
  if (hosts_.leads()) {
    auto combined = between_->combine_all(values, op, shifted(about, part_between));
    if (auto done = co_await combined; !done) co_return done.error();
  }
  co_return co_await within_.broadcast(values, 0, shifted(about, part_down));
}

Task<> Hierarchical::all_gather(ConstBuffer own, Gathered& gathered, Subject about) {
  make_room(group_, gathered, ranks());
  of_host_.bytes_max = gathered.bytes_max;
  if (auto done = co_await within_.all_gather(own, of_host_, about); !done) co_return done.error();

  by_host_.bytes_max = gathered.bytes_max;
  make_room(group_, by_host_, ranks());
  for (std::uint32_t neighbour = 0; neighbour < hosts_.neighbours().size(); ++neighbour) {
    swap_payloads(by_host_, begins_[hosts_.own()] + neighbour, of_host_, neighbour);
  }
  if (hosts_.leads()) {
    const auto begin_of = [&](std::uint32_t host) { return begins_[host]; };
    auto exchanged = gather_bundles(hosts_.leaders(), by_host_, begin_of, shifted(about, part_between));
    if (auto done = co_await exchanged; !done) co_return done.error();
  }
  if (auto done = co_await hand_down(shifted(about, part_down)); !done) co_return done.error();
  for (std::size_t host = 0; host < hosts_.count(); ++host) {
    for (std::size_t i = 0; i < hosts_.ranks()[host].size(); ++i) {
      swap_payloads(gathered, hosts_.ranks()[host][i], by_host_, begins_[host] + i);
    }
  }
  co_return Result<void>();
}

/// Gives the payloads of the other hosts to the ranks of this one.
Task<> Hierarchical::hand_down(Subject about) {
  SendWindow<8> outgoing;
  std::size_t sent = 0;
  for (std::uint32_t number = 0; number < ranks(); ++number, ++about.part) {
    if (number >= begins_[hosts_.own()] && number < begins_[hosts_.own() + 1]) continue;
    if (!hosts_.leads()) {
      Collector collector(group_, by_host_, number);
      Receive arrival(hosts_.neighbours(), 0, about, collector);
      if (auto done = co_await arrival; !done) co_return done.error();
      continue;
    }
    for (std::uint32_t neighbour = 1; neighbour < hosts_.neighbours().size(); ++neighbour, ++sent) {
      if (auto room = co_await outgoing.make_room(sent); !room) co_return room.error();
      outgoing.at(sent).emplace(hosts_.neighbours(), neighbour, about, view_of(group_, by_host_, number));
    }
  }
  co_return co_await outgoing.finish();
}

}  // namespace weir::collectives
