#include <future>

#include "base/errc.hpp"
#include "tests/cuda/nccl_ranks.hpp"

// What happens when NCCL, a rank or an operation fails: everybody's operation ends, with the right name, soon.

namespace weir::cuda {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Puts the fakes back to how they were.
class NcclFailure : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* library : {WEIR_FAKE_NCCL_LIBRARY, WEIR_FAKE_NCCL_BEFORE_LIBRARY}) {
      FakeNccl& told = fake(library);
      told.absent_rank = told.hanging_rank = told.failing_rank = -1;
      told.failure = 6;
      told.abort_hangs = false;
    }
  }
};

/// An all-reduce of all ranks, each on a thread of its own.
class UnderWay {
 public:
  explicit UnderWay(NcclRanks& ranks) : begun_(Clock::now()) {
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const OneRank own{ranks.fabric(rank), ranks.nccl(rank)};
      values_.push_back(std::make_unique<OnDevice<float>>(own, std::vector<float>(1000)));
      const Buffer buffer = values_.back()->buffer(Element::float32);
      results_.push_back(std::async(std::launch::async, [own, buffer] {
        return own.run([&] { return own.nccl.all_reduce(buffer, ReduceOp::sum, {.version = 2, .bucket = 5}); });
      }));
    }
  }

  /// Until so many ranks have put it into their streams.
  static void wait_until_begun(const FakeNccl& told, int operations) {
    while (told.operations < operations) std::this_thread::yield();
  }

  Result<void> result(std::uint32_t rank) {
    if (results_[rank].wait_for(collectives::testing::guard) != std::future_status::ready) {
      ADD_FAILURE() << "rank " << rank << " does not end";
      std::abort();
    }
    return results_[rank].get();
  }
  milliseconds since_begun() const { return std::chrono::duration_cast<milliseconds>(Clock::now() - begun_); }

 private:
  const Clock::time_point begun_;
  std::vector<std::unique_ptr<OnDevice<float>>> values_;
  std::vector<std::future<Result<void>>> results_;
};

void expect_error(const Result<void>& result, Errc code, const std::string& part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().message();
  EXPECT_NE(result.error().context.find(part), std::string::npos) << result.error().context;
}

/// A rank that is lost while all wait for each other on their GPUs; `library` has no ncclCommRevoke, or has.
void loses_a_rank(const char* library) {
  FakeNccl& told = fake(library);
  NcclRanks ranks(3, {library});
  ASSERT_TRUE(ranks.join()) << ranks.joined(0).error().message();
  told.hanging_rank = 2;
  const int revoked = told.revoked;
  const int aborted = told.aborted;
  const int operations = told.operations;
  UnderWay under_way(ranks);
  UnderWay::wait_until_begun(told, operations + 3);
  ranks.fabric(2).abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
  for (const std::uint32_t rank : {0U, 1U}) {
    expect_error(under_way.result(rank), Errc::peer_lost, "rank 2");
    EXPECT_EQ(ranks.fabric(rank).lost_rank(), 2U);
  }
  expect_error(under_way.result(2), Errc::cancelled, "killed");
  for (std::uint32_t rank = 0; rank < 3; ++rank) ranks.lose(rank);
  EXPECT_EQ(told.aborted - aborted, 3);
  EXPECT_EQ(told.revoked - revoked, std::string(library) == WEIR_FAKE_NCCL_LIBRARY ? 3 : 0);
  EXPECT_EQ(told.communicators, 0);
}

TEST_F(NcclFailure, ALostRankEndsAllWithItsName) { loses_a_rank(WEIR_FAKE_NCCL_LIBRARY); }

TEST_F(NcclFailure, ALostRankEndsAllWithAnNcclThatCannotRevoke) { loses_a_rank(WEIR_FAKE_NCCL_BEFORE_LIBRARY); }

TEST_F(NcclFailure, ALostRankEndsWhatComesLater) {
  NcclRanks ranks(3);
  ASSERT_TRUE(ranks.join());
  ranks.lose(1);
  for (const std::uint32_t rank : {0U, 2U}) {
    const OneRank own{ranks.fabric(rank), ranks.nccl(rank)};
    const OnDevice<float> values(own, std::vector<float>(10));
    const auto reduce = [&] { return own.nccl.all_reduce(values.buffer(Element::float32), ReduceOp::sum, Subject()); };
    expect_error(own.run(reduce), Errc::peer_lost, "rank 1");
    expect_error(own.run(reduce), Errc::peer_lost, "rank 1");
  }
}

TEST_F(NcclFailure, AnErrorOfNcclEndsAllAndNamesWhoHasIt) {
  NcclRanks ranks(3);
  ASSERT_TRUE(ranks.join());
  fake().hanging_rank = 0;
  fake().failing_rank = 1;
  UnderWay under_way(ranks);
  expect_error(under_way.result(1), Errc::io, "remote process exited");
  for (const std::uint32_t rank : {0U, 2U}) {
    expect_error(under_way.result(rank), Errc::malformed, "rank 1 has given up bucket 5 of version 2");
  }
}

TEST_F(NcclFailure, AnErrorOfNcclForALostRankGetsItsName) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  FakeNccl& told = fake();
  told.hanging_rank = 1;
  told.failing_rank = 0;
  const int operations = told.operations;
  told.failure = 0;
  UnderWay under_way(ranks);
  UnderWay::wait_until_begun(told, operations + 2);
  told.failure = 6;  // NCCL notices before the lane does
  ranks.fabric(1).abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
  expect_error(under_way.result(0), Errc::peer_lost, "rank 1");
  EXPECT_FALSE(under_way.result(1));
}

TEST_F(NcclFailure, ARankWhoseWorkNeverBeginsEndsAllAtTheDeadline) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join({.operation_within = milliseconds(300)}));
  fake().hanging_rank = 0;
  UnderWay under_way(ranks);
  int timed_out = 0;
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto result = under_way.result(rank);
    ASSERT_FALSE(result);
    timed_out += result.error().code == Errc::deadline_exceeded;
  }
  EXPECT_GE(timed_out, 1);
  EXPECT_GE(under_way.since_begun(), milliseconds(300));
}

TEST_F(NcclFailure, AnAbortThatHangsHoldsUpNobody) {
  FakeNccl& told = fake();
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  told.hanging_rank = 1;
  told.abort_hangs = true;
  const int operations = told.operations;
  {
    UnderWay under_way(ranks);
    UnderWay::wait_until_begun(told, operations + 2);
    ranks.fabric(1).abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
    expect_error(under_way.result(0), Errc::peer_lost, "rank 1");
    EXPECT_FALSE(under_way.result(1));
    // The loops go on meanwhile.
    for (const std::uint32_t rank : {0U, 1U}) ranks.fabric(rank).thread().call([] {});
    told.abort_hangs = false;
    while (told.communicators > 0) std::this_thread::yield();
  }
}

Task<> begin_and_give_up(Nccl& nccl, Buffer buffer) {
  Task<> task = nccl.all_reduce(buffer, ReduceOp::sum, Subject());
  task.start();
  co_return Result<void>();
}

TEST_F(NcclFailure, AnOperationThatIsGivenUpEndsThoseOfTheOthers) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  std::vector<Result<void>> results(2);
  ranks.run([&](const OneRank& rank) {
    const OnDevice<float> values(rank, std::vector<float>(10));
    const Buffer buffer = values.buffer(Element::float32);
    results[rank.rank()] = rank.run([&] {
      return rank.rank() == 0 ? begin_and_give_up(rank.nccl, buffer)
                              : rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject());
    });
  });
  EXPECT_TRUE(results[0]);
  expect_error(results[1], Errc::malformed, "rank 0 has given up");
}

/// After that the lane can be used without NCCL.
void expect_that_the_lane_works(NcclRanks& ranks) {
  collectives::testing::on_every_rank(ranks.size(), [&](std::uint32_t rank) {
    float value = 1;
    expect_done(ranks.fabric(rank).thread().run([&]() -> Task<> {
      collectives::Ring ring(ranks.fabric(rank).lane(1));
      const Buffer buffer{std::as_writable_bytes(std::span(&value, 1))};
      co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
    }));
    EXPECT_EQ(value, static_cast<float>(ranks.size()));
  });
}

TEST_F(NcclFailure, RanksOfDifferentVersionsFindOutBeforeTheyConnect) {
  NcclRanks ranks(3, {WEIR_FAKE_NCCL_LIBRARY, WEIR_FAKE_NCCL_LIBRARY, WEIR_FAKE_NCCL_BEFORE_LIBRARY});
  EXPECT_FALSE(ranks.join());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    expect_error(ranks.joined(rank), Errc::unsupported, "rank 2 (");
    expect_error(ranks.joined(rank), Errc::unsupported, ") has NCCL 2.27.3, and rank 0 (");
    expect_error(ranks.joined(rank), Errc::unsupported, ") has 2.28.9: install the same version everywhere");
  }
  EXPECT_EQ(fake().communicators, 0);
  expect_that_the_lane_works(ranks);
}

TEST_F(NcclFailure, ARankWithoutNcclIsKnownToAll) {
  NcclRanks ranks(3, {WEIR_FAKE_NCCL_LIBRARY, "libno-such-thing.so.2", WEIR_FAKE_NCCL_LIBRARY});
  EXPECT_FALSE(ranks.join());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    expect_error(ranks.joined(rank), Errc::unsupported, "rank 1 (");
    expect_error(ranks.joined(rank), Errc::unsupported, "cannot use NCCL: there is no NCCL: libno-such-thing.so.2");
  }
  expect_that_the_lane_works(ranks);
}

TEST_F(NcclFailure, ARankWithoutAGpuIsKnownToAll) {
  NcclRanks ranks(2);
  EXPECT_FALSE(ranks.join({.gpu = 3}));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    expect_error(ranks.joined(rank), Errc::unsupported, "cannot use NCCL: using GPU 3: invalid device ordinal");
  }
}

TEST_F(NcclFailure, ARankThatNeverConnectsEndsAllAtTheDeadline) {
  fake().absent_rank = 1;
  NcclRanks ranks(3);
  EXPECT_FALSE(ranks.join({.connect_within = milliseconds(200)}));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    expect_error(ranks.joined(rank), Errc::deadline_exceeded, "connecting: NCCL has not ended within 200 ms");
  }
  expect_that_the_lane_works(ranks);
  while (fake().communicators > 0) std::this_thread::yield();
}

TEST_F(NcclFailure, ARankThatIsLostWhileTheyConnectEndsAll) {
  fake().absent_rank = 1;
  NcclRanks ranks(2);
  auto joining = std::async(std::launch::async, [&] { return ranks.join(); });
  while (fake().communicators < 2) std::this_thread::yield();
  ranks.fabric(1).abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
  EXPECT_FALSE(joining.get());
  expect_error(ranks.joined(0), Errc::peer_lost, "rank 1");
}

TEST(NcclWithoutTimers, IsRefused) {
  collectives::testing::InProcessRanks ranks(2, {}, collectives::Loss::ends_the_group);
  const auto results = ranks.run([](collectives::Communicator& group) -> Task<> {
    auto joined = co_await join_nccl(group, NcclOptions());
    if (!joined) co_return joined.error();
    co_return Result<void>();
  });
  for (const auto& result : results) expect_error(result, Errc::unsupported, "a simulated network has no GPUs");
}

}  // namespace
}  // namespace weir::cuda
