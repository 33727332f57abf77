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

/// How many pieces of a message of 20 have arrived before one that is sent in `lane` when 4 of them are on their way.
int pieces_before(std::uint32_t lane) {
  constexpr std::uint32_t bulk = 1;
  constexpr double seconds_per_piece = 1;
  const auto network = InProcessNetwork::make(
      2, 2,
      {.bytes_per_second = (Communicator::piece_bytes_max + Communicator::frame_header_bytes) / seconds_per_piece});
  std::vector<std::unique_ptr<Communicator>> ends;
  for (const std::uint32_t rank : {0U, 1U}) {
    for (const std::uint32_t of : {0U, 1U}) ends.push_back(network->communicator(rank, of));
  }
  Communicator& out_bulk = *ends[bulk];
  Communicator& out_late = *ends[lane];
  Communicator& in_bulk = *ends[2 + bulk];
  Communicator& in_late = *ends[2 + lane];
  constexpr Subject first{.version = 1};
  constexpr Subject late{.version = 2};
  int before = -1;
  const auto sending = [&]() -> Task<> {
    const Bytes large(20 * Communicator::piece_bytes_max);
    const Bytes small(10);
    Send bulky(out_bulk, 1, first, large);
    if (auto slept = co_await network->until(3.5 * seconds_per_piece); !slept) co_return slept.error();
    Send urgent(out_late, 1, late, small);
    if (auto done = co_await urgent; !done) co_return done.error();
    co_return co_await bulky;
  };
  const auto receiving = [&]() -> Task<> {
    Keep large;
    Keep small;
    Receive bulky(in_bulk, 0, first, large);
    Receive urgent(in_late, 0, late, small);
    if (auto done = co_await urgent; !done) co_return done.error();
    before = static_cast<int>(large.pieces);
    co_return co_await bulky;
  };
  Task<> sender = sending();
  Task<> receiver = receiving();
  sender.start();
  receiver.start();
  network->run_while_busy();
  EXPECT_TRUE(sender.done() && sender.take_result());
  EXPECT_TRUE(receiver.done() && receiver.take_result());
  return before;
}

TEST(Simulation, TheUrgentLaneOvertakesAMessageThatIsOnItsWay) {
  EXPECT_EQ(pieces_before(0), 4) << "only the piece that is leaving goes first";
  EXPECT_EQ(pieces_before(1), 20) << "messages of one lane to one rank keep their order";
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
