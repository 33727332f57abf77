#include "collectives/transports/in_process.hpp"

#include "collectives/topologies/catalog.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/values.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

TEST(Simulation, AGoodbyeDoesNotOvertakeWhatWaitsAtAPort) {
  InProcessRanks ranks(3, {.bytes_per_second = 1e6}, Loss::ends_the_group);
  expect_success(ranks.run([](Communicator& group) -> Task<> {
    const Bytes message(100'000);
    if (group.rank() != 2) {
      Send sent(group, 2, {}, message);
      if (auto done = co_await sent; !done) co_return done.error();
      co_return co_await group.close();
    }
    // Both messages come at the same time, and one after the other through the port.
    Keep first;
    Keep second;
    Receive from_first(group, 0, {}, first);
    Receive from_second(group, 1, {}, second);
    if (auto done = co_await from_first; !done) co_return done.error();
    if (auto done = co_await from_second; !done) co_return done.error();
    EXPECT_EQ(second.bytes, message);
    co_return Result<void>();
  }));
}

TEST(Simulation, PayloadsWithoutDataTakeNoMemory) {
  // 8 GB on each of 8 ranks, of which three share a host.
  constexpr std::size_t bytes = 1'000'000'000;
  for (const TopologyType& type : topologies()) {
    InProcessRanks ranks(8, {.ranks_per_host = 3, .carries_data = false}, Loss::ends_the_group);
    std::vector<Gathered> gathered(8, Gathered{.payloads = {}, .bytes_max = 8 * bytes});
    expect_success(ranks.run([&](Communicator& group) -> Task<> {
      const auto collective = type.make(group);
      const BytesView own(group.reserved_addresses(), bytes + group.rank());
      co_return co_await collective->all_gather(own, gathered[group.rank()], Subject());
    }));
    for (const Gathered& of_rank : gathered) {
      for (std::uint32_t from = 0; from < 8; ++from) {
        EXPECT_EQ(of_rank.lengths[from], bytes + from) << type.name;
        EXPECT_TRUE(of_rank.payloads[from].empty());
      }
    }
  }
}

}  // namespace
}  // namespace weir::collectives
