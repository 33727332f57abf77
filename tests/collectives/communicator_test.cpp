#include "collectives/communicator.hpp"

#include <algorithm>
#include <latch>

#include "base/errc.hpp"
#include "collectives/subgroup.hpp"
#include "collectives/topologies/ring.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// What every transport promises.
class Contract : public ::testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Ranks> make(std::uint32_t size, Loss loss = Loss::ends_the_group) const {
    return GetParam().make(size, loss);
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, Contract, ::testing::ValuesIn(transports), transport_name);

void expect_success(const std::vector<Result<void>>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_TRUE(results[rank]) << "rank " << rank << ": " << results[rank].error().message();
  }
}

Bytes message_of(std::size_t length, std::uint32_t mark) { return Bytes(length, static_cast<std::byte>(mark)); }

Task<> sum_around(Communicator& group, std::size_t count) {
  std::vector<float> values(count, 1.0F);
  Ring ring(group);
  const Buffer buffer{std::as_writable_bytes(std::span(values))};
  co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
}

TEST_P(Contract, CarriesMessagesOfEveryLengthBothWaysAtOnce) {
  const auto ranks = make(2);
  expect_success(ranks->run([](Communicator& group) -> Task<> {
    const std::uint32_t other = 1 - group.rank();
    std::uint64_t sent_bytes = 0;
    // 5 MB both ways at once would block for ever if sending came before receiving.
    for (const std::size_t length : {0UL, 1UL, 4095UL, 4096UL, 262'144UL, 262'145UL, 5'000'000UL}) {
      Keep keep;
      const Bytes message = message_of(length, group.rank() + 1);
      if (auto done = co_await exchange(group, other, message, other, keep); !done) co_return done.error();
      EXPECT_EQ(keep.bytes, message_of(length, other + 1));
      EXPECT_EQ(keep.pieces, (length + Communicator::piece_bytes_max - 1) / Communicator::piece_bytes_max);
      sent_bytes += Communicator::wire_bytes(length);
    }
    EXPECT_EQ(group.traffic().sent_bytes, sent_bytes);
    EXPECT_EQ(group.traffic().received_bytes, sent_bytes);
    EXPECT_EQ(group.traffic_with(other).sent_bytes, sent_bytes);
    EXPECT_EQ(group.traffic_with(group.rank()).sent_bytes, 0U);
    co_return Result<void>();
  }));
}

TEST_P(Contract, SeveralMessagesOnOneLinkArriveInOrder) {
  const auto ranks = make(2);
  constexpr std::size_t lengths[] = {10, 300'000, 0, 5, 70'000, 262'144, 1, 2, 3, 4, 5, 6, 7, 8};
  constexpr std::size_t count = std::size(lengths);
  expect_success(ranks->run([&](Communicator& group) -> Task<> {
    std::vector<Bytes> messages;
    std::array<std::optional<Send>, count> sends;
    std::array<Keep, count> kept;
    std::array<std::optional<Receive>, count> receives;
    messages.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Subject about{.version = 1, .bucket = i, .part = 0};
      if (group.rank() == 0) {
        sends[i].emplace(group, 1, about, messages.emplace_back(message_of(lengths[i], i)));
      } else {
        receives[i].emplace(group, 0, about, kept[i]);
      }
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (sends[i]) {
        if (auto done = co_await *sends[i]; !done) co_return done.error();
      }
      if (receives[i]) {
        if (auto done = co_await *receives[i]; !done) co_return done.error();
        EXPECT_EQ(kept[i].bytes, message_of(lengths[i], i));
      }
    }
    co_return Result<void>();
  }));
}

TEST_P(Contract, AMessageIsSentAsFarAsItIsThereAndTakenAsFarAsItIsAdmitted) {
  const auto ranks = make(3);
  constexpr std::size_t length = 1'000'000;
  // Rank 1 passes on to rank 2 what arrives from rank 0. Rank 2 takes a second message no further than the first.
  expect_success(ranks->run([&](Communicator& group) -> Task<> {
    class PassOn final : public Receiver {
     public:
      PassOn(Bytes& into, Send* onward, Receive* follower) : into_(into), onward_(onward), follower_(follower) {}
      Result<void> begin(std::uint64_t) override { return {}; }
      std::span<std::byte> place(std::uint64_t offset, std::size_t size) override {
        return std::span(into_).subspan(offset, size);
      }
      void progressed(std::uint64_t bytes, const std::optional<PieceDigest>& digest) override {
        progress = bytes;
        if (onward_ != nullptr) onward_->release(bytes, digest);
        if (follower_ != nullptr) follower_->admit(bytes);
        EXPECT_TRUE(leader == nullptr || bytes <= leader->progress);
      }
      std::uint64_t progress = 0;
      PassOn* leader = nullptr;

     private:
      Bytes& into_;
      Send* onward_;
      Receive* follower_;
    };
    const Subject first{.version = 1, .bucket = 1, .part = 0};
    const Subject second{.version = 1, .bucket = 2, .part = 0};
    Bytes bytes(length);
    if (group.rank() == 0) {
      const Bytes message = message_of(length, 7);
      Send to_one(group, 1, first, message);
      Send to_two(group, 2, second, message);
      if (auto done = co_await to_one; !done) co_return done.error();
      co_return co_await to_two;
    }
    if (group.rank() == 1) {
      Send onward(group, 2, first, bytes, 0);
      PassOn pass_on(bytes, &onward, nullptr);
      Receive arrival(group, 0, first, pass_on);
      if (auto done = co_await arrival; !done) co_return done.error();
      co_return co_await onward;
    }
    Bytes held(length);
    PassOn late(held, nullptr, nullptr);
    Receive follower(group, 0, second, late, 0);
    PassOn early(bytes, nullptr, &follower);
    late.leader = &early;
    Receive leader(group, 1, first, early);
    if (auto done = co_await leader; !done) co_return done.error();
    if (auto done = co_await follower; !done) co_return done.error();
    EXPECT_EQ(bytes, message_of(length, 7));
    EXPECT_EQ(held, message_of(length, 7));
    co_return Result<void>();
  }));
}

TEST_P(Contract, AServerTakesWhatAnyRankSends) {
  constexpr std::uint32_t size = 5;
  const auto ranks = make(size);
  std::vector<int> served(size);
  expect_success(ranks->run([&](Communicator& group) -> Task<> {
    if (group.rank() != 0) {
      for (std::uint64_t version = 0; version < 20; ++version) {
        const Bytes gradient = message_of(1000 * group.rank(), group.rank());
        Keep answer;
        Send asked(group, 0, {.version = version, .bucket = group.rank(), .part = 0}, gradient);
        Receive answered(group, 0, {.version = version, .bucket = group.rank(), .part = 1}, answer);
        if (auto done = co_await answered; !done) co_return done.error();
        if (auto done = co_await asked; !done) co_return done.error();
        EXPECT_EQ(answer.bytes, message_of(100, group.rank()));
      }
      co_return Result<void>();
    }
    for (int i = 0; i < 20 * static_cast<int>(size - 1); ++i) {
      Keep gradient;
      Receive arrival(group, gradient);
      if (auto done = co_await arrival; !done) co_return done.error();
      EXPECT_EQ(gradient.bytes, message_of(1000 * arrival.from(), arrival.from()));
      EXPECT_EQ(arrival.about().bucket, arrival.from());
      EXPECT_EQ(arrival.about().version, static_cast<std::uint64_t>(served[arrival.from()]++));
      const Bytes answer = message_of(100, arrival.from());
      Subject about = arrival.about();
      about.part = 1;
      Send sent(group, arrival.from(), about, answer);
      if (auto done = co_await sent; !done) co_return done.error();
    }
    co_return Result<void>();
  }));
  EXPECT_EQ(served, (std::vector<int>{0, 20, 20, 20, 20}));
}

TEST_P(Contract, APartOfAGroupIsAGroup) {
  const auto ranks = make(5);
  // The even ranks and the odd ones, at the same time; then all.
  const auto body = [](Communicator& group) -> Task<> {
    const std::uint32_t first = group.rank() % 2;
    SubGroup part(group, first == 0 ? std::vector<std::uint32_t>{0, 2, 4} : std::vector<std::uint32_t>{1, 3});
    EXPECT_EQ(part.rank(), group.rank() / 2);
    EXPECT_EQ(part.size(), 3 - first);
    float sum = static_cast<float>(group.rank());
    Ring ring(part);
    const Buffer values{std::as_writable_bytes(std::span(&sum, 1))};
    if (auto done = co_await ring.all_reduce(values, ReduceOp::sum, Subject()); !done) co_return done.error();
    EXPECT_EQ(sum, first == 0 ? 6 : 4);
    co_return co_await sum_around(group, 1000);
  };
  expect_success(ranks->run(body));
  ranks->lose(3);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    if (group.rank() != 1) co_return Result<void>();
    SubGroup part(group, {1, 3});
    co_return co_await sum_around(part, 10);
  });
  ASSERT_FALSE(results[1]);
  EXPECT_NE(results[1].error().context.find("rank 3"), std::string::npos) << results[1].error().message();
}

TEST_P(Contract, AMessageAboutSomethingElseIsNamed) {
  const auto ranks = make(2);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const Bytes message(10);
    if (group.rank() == 0) {
      Send sent(group, 1, {.version = 17, .bucket = 3, .part = 0}, message);
      Keep nothing;
      Receive never(group, 1, {}, nothing);
      if (auto done = co_await never; !done) co_return done.error();
      co_return co_await sent;
    }
    Keep keep;
    Receive arrival(group, 0, {.version = 17, .bucket = 4, .part = 0}, keep);
    co_return co_await arrival;
  });
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code, Errc::malformed);
  EXPECT_EQ(results[1].error().context,
            "rank 0: a message about bucket 3 of version 17, part 0 where bucket 4 of version 17, part 0 is due");
  ASSERT_FALSE(results[0]) << "the group has failed for all";
  EXPECT_EQ(results[0].error().code, Errc::malformed);
  EXPECT_EQ(results[0].error().context, "rank 0 and rank 1 do not agree about bucket 4 of version 17, part 0");
}

TEST_P(Contract, OneLostRankFailsAllTheOthersAtOnce) {
  // Rank 0 waits for rank 3, which lives: it ends only because every rank is told of the loss.
  const auto ranks = make(4);
  ranks->lose(2);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const auto reduced = co_await sum_around(group, 1000);
    EXPECT_EQ(group.lost_rank(), 2U) << reduced.error().message();
    const auto again = co_await sum_around(group, 1000);
    EXPECT_FALSE(again) << "the first failure is final";
    co_return reduced;
  });
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code, Errc::peer_lost);
    EXPECT_NE(results[rank].error().context.find("rank 2"), std::string::npos) << results[rank].error().message();
  }
}

TEST_P(Contract, ARankLostInTheMiddleOfALargeMessageFailsTheOthers) {
  class LeaveHalfWay final : public Receiver {
   public:
    explicit LeaveHalfWay(Communicator& own) : own_(own) {}
    Result<void> begin(std::uint64_t) override { return {}; }
    std::span<std::byte> place(std::uint64_t, std::size_t) override { return {}; }
    void arrived(std::uint64_t offset, BytesView) override {
      if (offset > 0) own_.abort(Error{Errc::cancelled, "enough"});
    }

   private:
    Communicator& own_;
  };
  const auto ranks = make(3);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const Bytes message(8'000'000);
    LeaveHalfWay leave(group);
    Keep keep;
    Receiver& receiver = group.rank() == 0 ? static_cast<Receiver&>(leave) : keep;
    Result<void> done;
    while (done) done = co_await exchange(group, (group.rank() + 1) % 3, message, (group.rank() + 2) % 3, receiver);
    co_return done;
  });
  EXPECT_EQ(results[0].error().code, Errc::cancelled) << results[0].error().message();
  EXPECT_EQ(results[1].error().code, Errc::peer_lost) << results[1].error().message();
  EXPECT_EQ(results[2].error().code, Errc::peer_lost) << results[2].error().message();
}

TEST_P(Contract, WhereALossEndsOnlyItsLinksTheOthersGoOn) {
  const auto ranks = make(3, Loss::ends_its_links);
  ranks->lose(1);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const std::uint32_t other = 2 - group.rank();
    Keep keep;
    const auto lost = co_await exchange(group, 1, Bytes(10), 1, keep);
    EXPECT_TRUE(!lost && lost.error().code == Errc::peer_lost);
    const Bytes message = message_of(500'000, group.rank());
    if (auto done = co_await exchange(group, other, message, other, keep); !done) co_return done.error();
    EXPECT_EQ(keep.bytes, message_of(500'000, other));
    EXPECT_FALSE(group.lost_rank());
    co_return Result<void>();
  });
  expect_success(results);
}

TEST_P(Contract, AServerGoesOnWhenALossCutsAMessageToIt) {
  const auto ranks = make(3, Loss::ends_its_links);
  constexpr std::size_t length = 3'000'000;
  // Rank 1 is lost while its message arrives. The server, rank 0, then takes that of rank 2.
  class FirstPiece final : public Receiver {
   public:
    explicit FirstPiece(const std::function<void()>& call) : call_(call), into_(length) {}
    Result<void> begin(std::uint64_t) override { return {}; }
    std::span<std::byte> place(std::uint64_t offset, std::size_t size) override {
      return std::span(into_).subspan(offset, size);
    }
    void progressed(std::uint64_t bytes, const std::optional<PieceDigest>&) override {
      if (bytes < length) std::exchange(call_, [] {})();
    }

   private:
    std::function<void()> call_;
    Bytes into_;
  };
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const Bytes message = message_of(length, group.rank());
    if (group.rank() == 1) {
      Send cut(group, 0, {.version = 1, .bucket = 1, .part = 0}, message, length / 2);
      Keep keep;
      const Bytes go = message_of(1, 1);
      Receive told(group, 0, {.version = 1, .bucket = 3, .part = 0}, keep);
      if (auto done = co_await told; !done) co_return done.error();
      group.abort({Errc::cancelled, "lost half-way"}, std::nullopt);
      co_return Result<void>();
    }
    if (group.rank() == 2) {
      Keep keep;
      Receive told(group, 0, {.version = 1, .bucket = 3, .part = 0}, keep);
      if (auto done = co_await told; !done) co_return done.error();
      Send whole(group, 0, {.version = 1, .bucket = 2, .part = 0}, message);
      co_return co_await whole;
    }
    const Bytes go = message_of(1, 0);
    std::optional<Send> to_one;
    FirstPiece piece([&] { to_one.emplace(group, 1, Subject{.version = 1, .bucket = 3, .part = 0}, go); });
    Receive cut(group, piece);
    const auto lost = co_await cut;
    EXPECT_TRUE(!lost && lost.error().code == Errc::peer_lost);
    EXPECT_EQ(cut.from(), 1U);
    Send to_two(group, 2, {.version = 1, .bucket = 3, .part = 0}, go);
    Keep keep;
    Receive arrival(group, keep);
    if (auto done = co_await arrival; !done) co_return done.error();
    EXPECT_EQ(arrival.from(), 2U);
    EXPECT_EQ(keep.bytes, message_of(length, 2));
    const auto told = co_await *to_one;
    EXPECT_TRUE(told || told.error().code == Errc::peer_lost);
    co_return co_await to_two;
  });
  EXPECT_TRUE(results[0]) << results[0].error().message();
  EXPECT_TRUE(results[2]) << results[2].error().message();
}

TEST_P(Contract, AServerIsNotDisturbedByThoseWhoLeaveInGoodOrder) {
  const auto ranks = make(3);
  // Rank 1 leaves after its message, while rank 0 goes on serving rank 2.
  constexpr std::uint64_t versions = 50;
  expect_success(ranks->run([](Communicator& group) -> Task<> {
    const Bytes message = message_of(1000, group.rank());
    if (group.rank() > 0) {
      for (std::uint64_t version = 0; version < (group.rank() == 1 ? 1 : versions); ++version) {
        Keep answer;
        Send asked(group, 0, {.version = version, .bucket = group.rank(), .part = 0}, message);
        if (auto done = co_await asked; !done) co_return done.error();
        if (group.rank() == 1) break;
        Receive answered(group, 0, Subject{.version = version, .bucket = 2, .part = 1}, answer);
        if (auto done = co_await answered; !done) co_return done.error();
      }
      co_return co_await group.close();
    }
    for (std::uint64_t i = 0; i < versions + 1; ++i) {
      Keep gradient;
      Receive arrival(group, gradient);
      if (auto done = co_await arrival; !done) co_return done.error();
      EXPECT_EQ(gradient.bytes, message_of(1000, arrival.from()));
      if (arrival.from() == 1) continue;
      Subject about = arrival.about();
      about.part = 1;
      Send answer(group, 2, about, message);
      if (auto done = co_await answer; !done) co_return done.error();
    }
    co_return co_await group.close();
  }));
}

TEST_P(Contract, LeavingInGoodOrderDisturbsNobody) {
  // Rank 0 is done while 1 and 2 go on with each other.
  const auto ranks = make(3);
  expect_success(ranks->run([](Communicator& group) -> Task<> {
    if (auto reduced = co_await sum_around(group, 5000); !reduced) co_return reduced.error();
    if (group.rank() != 0) {
      for (int i = 0; i < 50; ++i) {
        Keep keep;
        const Bytes message(1000);
        const std::uint32_t other = 3 - group.rank();
        if (auto done = co_await exchange(group, other, message, other, keep); !done) co_return done.error();
      }
    }
    co_return co_await group.close();
  }));
}

TEST_P(Contract, WaitingForARankThatHasLeftFails) {
  const auto ranks = make(2);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    if (group.rank() == 0) co_return co_await group.close();
    Keep keep;
    const Bytes message(10);
    const auto done = co_await exchange(group, 0, message, 0, keep);
    EXPECT_EQ(group.lost_rank(), 0U);
    co_return done;
  });
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code, Errc::peer_lost);
}

}  // namespace
}  // namespace weir::collectives
