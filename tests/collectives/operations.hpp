#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/gossip/gossip.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/multi_hop.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives::testing {

/// What one rank has in an operation: numbers, and what it sends to and receives from the others.
struct Exchanged {
  explicit Exchanged(std::size_t bytes) : values(bytes), payload(bytes) {
    gathered.bytes_max = bytes;
    incoming.bytes_max = bytes;
  }

  Buffer buffer() { return {std::span(values), Element::float32, device}; }
  /// The same payload to each of `ranks` ranks.
  std::vector<BytesView> outgoing(std::uint32_t ranks) const { return {ranks, BytesView(payload)}; }
  /// The payload, in the memory of the device.
  ConstBuffer sent() { return Buffer{std::span(payload), Element::float32, device}; }

  std::vector<std::byte> values;
  Device device;  ///< whose memory values and payload are said to be in
  Bytes payload;
  Gathered gathered;
  Gathered incoming;
};

/// An operation over all ranks, by name: from one rank's end of a lane, which is made for it.
struct NamedOperation {
  std::string name;
  std::function<Task<>(Communicator& group, Exchanged& own, Subject about)> run;
};

using OfCollective = Task<> (*)(Collective& collective, Communicator& group, Exchanged& own, Subject about);

// Coroutines own what they are given: the collective lives as long as its operation.
inline Task<> with_collective(std::unique_ptr<Collective> collective, OfCollective run, Communicator& group,
                              Exchanged& own, Subject about) {
  co_return co_await run(*collective, group, own, about);
}

inline Task<> all_to_all(Collective& collective, Communicator& group, Exchanged& own, Subject about) {
  const std::vector<ConstBuffer> outgoing(group.size(), own.sent());
  co_return co_await collective.all_to_all(outgoing, own.incoming, about);
}

inline Task<> to_owners_and_back(Collective& collective, Communicator& group, Exchanged& own, Subject about) {
  const std::vector<BytesView> outgoing = own.outgoing(group.size());
  if (auto done = co_await collective.to_owners(outgoing, own.incoming, about); !done) co_return done.error();
  about.part = 1 << 16;
  co_return co_await collective.from_owners(own.payload, own.gathered, about);
}

/// To the owners by hops. The last operation begins with the next part.
inline Task<> hops_and_back(Collective& collective, Communicator& group, Exchanged& own, Subject about) {
  for (std::uint32_t number = 0; number < MultiHop::hop_count(group.size()); ++number, ++about.part) {
    const Hop hop = MultiHop::hop(group.rank(), group.size(), number);
    auto swapping = collective.swap(own.payload, hop.partner, own.incoming, about);
    if (auto done = co_await swapping; !done) co_return done.error();
  }
  co_return co_await collective.from_owners(own.payload, own.gathered, about);
}

/// All operations of a topology.
inline std::vector<NamedOperation> operations_of(const TopologyType& type, const TopologyChoice& choice) {
  const auto operation = [&](std::string name, OfCollective run) {
    return NamedOperation{std::move(name), [&type, choice, run](Communicator& group, Exchanged& own, Subject about) {
                            return with_collective(type.make(group, choice), run, group, own, about);
                          }};
  };
  std::vector<NamedOperation> all{
      operation("all_reduce", [](Collective& collective, Communicator&, Exchanged& own,
                                 Subject about) { return collective.all_reduce(own.buffer(), ReduceOp::sum, about); }),
      operation("reduce_scatter",
                [](Collective& collective, Communicator&, Exchanged& own, Subject about) {
                  return collective.reduce_scatter(own.buffer(), ReduceOp::sum, about);
                }),
      operation("all_gather", [](Collective& collective, Communicator&, Exchanged& own,
                                 Subject about) { return collective.all_gather(own.sent(), own.gathered, about); }),
      operation("all_to_all", all_to_all),
      operation("to_owners_and_back", to_owners_and_back),
      operation("broadcast", [](Collective& collective, Communicator& group, Exchanged& own, Subject about) {
        return collective.broadcast(own.buffer(), group.size() / 2, about);
      })};
  if (type.gathers == Gathers::partners) all.push_back(operation("hops_and_back", hops_and_back));
  return all;
}

inline Task<> mix(std::unique_ptr<Gossip> gossip, Exchanged& own, Subject about) {
  co_return co_await gossip->mix(own.buffer(), about);
}
inline Task<> gather(std::unique_ptr<Gossip> gossip, Exchanged& own, Subject about) {
  co_return co_await gossip->gather(own.payload, own.gathered, about);
}

/// A random one has the degree 4 or, of fewer than 6 ranks, the largest.
inline Graph graph_of(const GraphType& type, std::uint32_t ranks) {
  return type.make(ranks, {.name = {}, .degree = std::min(4U, ranks - 1), .seed = 1}).value();
}

/// All operations of gossip on a graph.
inline std::vector<NamedOperation> operations_of(const GraphType& type) {
  const auto gossip_of = [&type](Communicator& group) {
    return std::make_unique<Gossip>(group, graph_of(type, group.size()));
  };
  return {
      {"mix", [=](Communicator& group, Exchanged& own, Subject about) { return mix(gossip_of(group), own, about); }},
      {"gather",
       [=](Communicator& group, Exchanged& own, Subject about) { return gather(gossip_of(group), own, about); }}};
}

/// A topology with its options, or a graph to gossip on, by name.
struct Arrangement {
  std::string name;
  std::vector<NamedOperation> operations;
  GroupSize group_size = GroupSize::any;

  friend void PrintTo(const Arrangement& arrangement, std::ostream* out) { *out << arrangement.name; }
};

inline std::vector<Arrangement> all_arrangements() {
  std::vector<Arrangement> all;
  for (const TopologyType& type : topologies()) {
    const std::string name(type.name);
    all.push_back({name, operations_of(type, {.name = name}), type.group_size});
    if (!type.has_servers) continue;
    for (const std::uint32_t servers : {1U, 2U, 3U}) {
      all.push_back({name + "_" + std::to_string(servers), operations_of(type, {.name = name, .servers = servers})});
    }
  }
  for (const GraphType& type : graphs()) {
    all.push_back({"gossip_" + std::string(type.name), operations_of(type)});
  }
  return all;
}

inline std::string arrangement_name(const ::testing::TestParamInfo<Arrangement>& info) { return info.param.name; }

}  // namespace weir::collectives::testing
