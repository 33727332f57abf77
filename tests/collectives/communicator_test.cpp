#include "collectives/communicator.hpp"

#include <latch>

#include "base/errc.hpp"
#include "collectives/ring.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// What every transport promises.
class Contract : public ::testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, Contract, ::testing::ValuesIn(transports), transport_name);

TEST_P(Contract, CarriesMessagesOfEveryLengthBothWaysAtOnce) {
  const Communicators group = GetParam().make(2);
  on_every_rank(2, [&](std::uint32_t rank) {
    const std::uint32_t other = 1 - rank;
    std::uint64_t sent_bytes = 0;
    // 5 MB both ways at once would block for ever if sending came before receiving.
    for (const std::size_t length : {0UL, 1UL, 4095UL, 4096UL, 262'144UL, 262'145UL, 5'000'000UL}) {
      Keep keep;
      const Bytes message(length, static_cast<std::byte>(rank + 1));
      const auto done = group[rank]->exchange(other, message, other, keep);
      ASSERT_TRUE(done) << done.error().message();
      ASSERT_EQ(keep.bytes, Bytes(length, static_cast<std::byte>(other + 1)));
      EXPECT_EQ(keep.pieces, (length + Communicator::piece_bytes_max - 1) / Communicator::piece_bytes_max);
      sent_bytes += Communicator::wire_bytes(length);
    }
    EXPECT_EQ(group[rank]->traffic().sent_bytes, sent_bytes);
    EXPECT_EQ(group[rank]->traffic().received_bytes, sent_bytes);
  });
}

TEST_P(Contract, OneLostRankFailsAllTheOthersAtOnce) {
  // Rank 2 goes away while the others wait in a ring. Rank 0 waits for rank 3, which lives: only because
  // every wait watches every peer does it end.
  Communicators group = GetParam().make(4);
  on_every_rank(4, [&](std::uint32_t rank) {
    if (rank == 2) {
      group[rank].reset();
      return;
    }
    std::vector<float> values(1000);
    const auto reduced = ring_all_reduce(*group[rank], values);
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().code, Errc::peer_lost);
    EXPECT_EQ(group[rank]->lost_rank(), 2U) << reduced.error().message();
    EXPECT_NE(reduced.error().context.find("rank 2"), std::string::npos) << reduced.error().message();
    EXPECT_EQ(ring_all_reduce(*group[rank], values).error(), reduced.error()) << "the first failure is final";
  });
}

TEST_P(Contract, ARankLostInTheMiddleOfALargeMessageFailsTheOthers) {
  class LeaveHalfWay final : public Receiver {
   public:
    explicit LeaveHalfWay(Communicator& own) : own_(own) {}
    Result<void> begin(std::uint64_t) override { return {}; }
    std::span<std::byte> place(std::uint64_t, std::size_t bytes) override {
      piece_.resize(bytes);
      return piece_;
    }
    void arrived(std::uint64_t offset, BytesView) override {
      if (offset > 0) own_.abort(Error{Errc::cancelled, "enough"});
    }

   private:
    Communicator& own_;
    Bytes piece_;
  };
  Communicators group = GetParam().make(3);
  on_every_rank(3, [&](std::uint32_t rank) {
    const Bytes message(32'000'000);
    if (rank == 0) {
      LeaveHalfWay leave(*group[0]);
      auto done = group[0]->exchange(1, message, 2, leave);
      for (int more = 0; done && more < 2; ++more) done = group[0]->exchange(1, message, 2, leave);
      EXPECT_FALSE(done);
      group[0].reset();
      return;
    }
    Keep keep;
    Result<void> done;
    while (done) done = group[rank]->exchange((rank + 1) % 3, message, rank - 1, keep);
    EXPECT_EQ(done.error().code, Errc::peer_lost) << done.error().message();
  });
}

TEST_P(Contract, AbortFromAnotherThreadEndsAWaitWithItsCause) {
  const Communicators group = GetParam().make(3);
  std::latch aborted(1);
  on_every_rank(3, [&](std::uint32_t rank) {
    if (rank == 0) {
      group[1]->abort(Error{Errc::cancelled, "the head says stop"});
      aborted.count_down();
      return;
    }
    std::vector<float> values(10);  // rank 0 never takes part
    const auto reduced = ring_all_reduce(*group[rank], values);
    ASSERT_FALSE(reduced);
    if (rank == 1) {
      EXPECT_EQ(reduced.error(), (Error{Errc::cancelled, "the head says stop"}));
    } else {
      EXPECT_EQ(reduced.error().code, Errc::peer_lost);
    }
  });
  aborted.wait();
  Keep keep;
  EXPECT_EQ(group[1]->exchange(0, {}, 2, keep).error().code, Errc::cancelled) << "later calls fail too";
}

TEST_P(Contract, LeavingInGoodOrderDisturbsNobody) {
  // Rank 0 is done while 1 and 2 go on with each other.
  Communicators group = GetParam().make(3);
  std::latch leaving(1);
  on_every_rank(3, [&](std::uint32_t rank) {
    std::vector<float> values(5000, 1.0F);
    ASSERT_TRUE(ring_all_reduce(*group[rank], values));
    if (rank == 0) {
      leaving.count_down();
    } else {
      leaving.wait();
      for (int i = 0; i < 50; ++i) {
        Keep keep;
        const auto done = group[rank]->exchange(3 - rank, Bytes(1000), 3 - rank, keep);
        ASSERT_TRUE(done) << done.error().message();
      }
    }
    group[rank]->close();
    group[rank].reset();
  });
}

TEST_P(Contract, WaitingForARankThatHasLeftFails) {
  Communicators group = GetParam().make(2);
  on_every_rank(2, [&](std::uint32_t rank) {
    if (rank == 0) {
      group[0]->close();
    } else {
      Keep keep;
      const auto done = group[1]->exchange(0, Bytes(10), 0, keep);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, Errc::peer_lost);
      EXPECT_EQ(group[1]->lost_rank(), 0U);
      group[1].reset();
    }
  });
}

}  // namespace
}  // namespace weir::collectives
