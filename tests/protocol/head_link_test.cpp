#include "protocol/head_link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>

#include "base/errc.hpp"
#include "protocol/acknowledged.hpp"
#include "runtime/actor.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::protocol {
namespace {

using namespace std::chrono_literals;

/// What the head's Jobs has heard, and what it answers.
struct Book {
  std::vector<std::string> announced;
  std::optional<Error> refuse_workers;
  std::vector<Error> refusals;          ///< of what is said to it, first to last; then it takes everything
  std::vector<CheckpointPiece> pieces;  ///< of shares, repeated ones too
  int reports = 0;
};

class Office final : public runtime::Actor<Coordinator> {
 public:
  explicit Office(Book& book) : book_(book) {}
  net::awaitable<Result<void>> worker_up(std::string worker_id, runtime::ActorRef<Worker>) override {
    book_.announced.push_back(worker_id);
    if (book_.refuse_workers) co_return *book_.refuse_workers;
    co_return Result<void>();
  }
  net::awaitable<Result<void>> report(Report) override {
    ++book_.reports;
    co_return next();
  }
  net::awaitable<Result<void>> checkpoint(CheckpointPiece piece) override {
    book_.pieces.push_back(std::move(piece));
    co_return next();
  }
  net::awaitable<Result<Segment>> resume(ResumeRequest) override { co_return Segment(); }
  net::awaitable<Result<void>> ended(TrainingEnd) override { co_return next(); }

 private:
  Result<void> next() {
    if (book_.refusals.empty()) return {};
    const Error first = book_.refusals.front();
    book_.refusals.erase(book_.refusals.begin());
    return first;
  }
  Book& book_;
};

class EmptyWorker final : public runtime::Actor<Worker> {
 public:
  net::awaitable<Result<std::uint64_t>> create(std::string type, std::string) override {
    co_return Error{Errc::not_found, type};
  }
};

/// A head and a worker that holds its link to it.
struct Linked {
  explicit Linked(const std::string& secret = "secret", bool with_head = true) {
    if (with_head) start_head();
    worker = std::make_unique<runtime::ActorSystem>(
        runtime::ActorSystem::Options{"w", simulation.executor(), simulation.clock(), simulation.transport(), secret});
    std::function<Result<runtime::ActorRef<Worker>>(runtime::ActorRef<Coordinator>)> make_worker =
        [this](runtime::ActorRef<Coordinator> ref) -> Result<runtime::ActorRef<Worker>> {
      ++hosts;
      jobs = std::move(ref);
      return worker->spawn<EmptyWorker>("worker")->as<Worker>();
    };
    HeadLinkOptions options{"w", runtime::Endpoint("head", 1), 10s};
    net::co_spawn(net::make_strand(simulation.executor()),
                  hold_head_link(*worker, std::move(options), std::move(make_worker)),
                  net::bind_cancellation_slot(
                      stopping.slot(), [this](const std::exception_ptr&, Error why) { ended = std::move(why); }));
  }
  ~Linked() {
    process->resume();
    stopping.emit(net::cancellation_type::terminal);
    EXPECT_TRUE(simulation.run_until([this] { return ended.has_value(); }));
    worker.reset();
    head.reset();
  }

  void start_head() {
    head = std::make_unique<runtime::ActorSystem>(
        runtime::ActorSystem::Options{"head", process->executor(), simulation.clock(), process->transport(), "secret"});
    EXPECT_TRUE(head->spawn<Office>("coordinator", book));
    EXPECT_TRUE(head->listen(runtime::Endpoint("head", 1)));
  }
  bool announced(std::size_t times) {
    return simulation.run_until([&] { return book.announced.size() == times; }, 1min);
  }

  runtime::testing::Simulation simulation{1};
  std::unique_ptr<runtime::testing::SimulatedProcess> process = simulation.process();
  Book book;
  std::unique_ptr<runtime::ActorSystem> head;
  std::unique_ptr<runtime::ActorSystem> worker;
  runtime::ActorRef<Coordinator> jobs;
  int hosts = 0;
  net::cancellation_signal stopping;
  std::optional<Error> ended;
};

TEST(HeadLink, IsReplacedWheneverItBreaks) {
  Linked linked;
  for (std::size_t times = 1; times <= 20; ++times) {
    ASSERT_TRUE(linked.announced(times));
    linked.simulation.pass(std::chrono::milliseconds(50 * times));
    linked.simulation.transport().cut();
  }
  linked.simulation.pass(1min);
  EXPECT_EQ(linked.book.announced, std::vector<std::string>(21, "w"));
  EXPECT_EQ(linked.hosts, 1) << "it is the same worker";
  EXPECT_FALSE(linked.ended);
}

TEST(HeadLink, EndsWhenTheHeadDoesNotWantTheWorker) {
  for (const auto code : {Errc::not_found, Errc::conflict}) {
    Linked linked;
    ASSERT_TRUE(linked.announced(1));
    linked.book.refuse_workers = Error{code, "nobody waits"};
    linked.simulation.pass(1s);
    EXPECT_FALSE(linked.ended) << "it is not asked while it is linked";
    linked.simulation.transport().cut();
    ASSERT_TRUE(linked.simulation.run_until([&] { return linked.ended.has_value(); }, 2s));
    EXPECT_EQ(linked.ended->code, code);
  }
}

TEST(HeadLink, OutlivesAHeadThatIsStoppedForLessThanTheLease) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.process->stop();
  linked.simulation.transport().cut();
  linked.simulation.pass(9s);
  linked.process->resume();
  EXPECT_TRUE(linked.announced(2));
  EXPECT_FALSE(linked.ended);
}

TEST(HeadLink, EndsWithTheLease) {
  for (const bool listens : {true, false}) {
    Linked linked;
    ASSERT_TRUE(linked.announced(1));
    linked.process->stop();  // either nobody answers, or nobody is there
    if (!listens) linked.head.reset();
    linked.simulation.transport().cut();
    linked.simulation.pass(9900ms);
    EXPECT_FALSE(linked.ended);
    linked.simulation.pass(200ms);
    ASSERT_TRUE(linked.ended);
    EXPECT_EQ(linked.ended->code, Errc::deadline_exceeded);
  }
}

TEST(HeadLink, WaitsForAHeadThatIsNotThereYet) {
  Linked linked("secret", false);
  linked.simulation.pass(5s);
  linked.start_head();
  EXPECT_TRUE(linked.announced(1));
}

TEST(HeadLink, AskedAgainWhenTheHeadIsBusy) {
  Linked linked;
  linked.book.refuse_workers = Error{Errc::mailbox_full, "4096 messages"};
  ASSERT_TRUE(linked.announced(5));
  linked.book.refuse_workers.reset();
  ASSERT_TRUE(linked.announced(6));
  linked.simulation.pass(1min);
  EXPECT_EQ(linked.book.announced.size(), 6u);
  EXPECT_EQ(linked.hosts, 1);
}

TEST(HeadLink, AWrongSecretIsHopeless) {
  Linked linked("guess");
  ASSERT_TRUE(linked.simulation.run_until([&] { return linked.ended.has_value(); }, 1s));
  EXPECT_EQ(linked.ended->code, Errc::unauthenticated);
}

TEST(HeadLink, ARestartedHeadIsAnother) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.simulation.run(linked.head->stop());
  linked.head.reset();
  linked.simulation.settle();
  linked.start_head();
  ASSERT_TRUE(linked.simulation.run_until([&] { return linked.ended.has_value(); }, 2s));
  EXPECT_EQ(linked.ended->code, Errc::conflict);
}

TEST(Acknowledged, NewsAreRepeatedUntilTheyAreTaken) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  for (const auto code : {Errc::deadline_exceeded, Errc::mailbox_full, Errc::exhausted, Errc::peer_lost}) {
    linked.book.refusals.push_back({code, "not now"});
  }
  Report report;
  EXPECT_TRUE(linked.simulation.run(
      until_acknowledged<&Coordinator::report>(linked.jobs, linked.simulation.clock(), std::move(report))));
  EXPECT_EQ(linked.book.reports, 5);
  linked.book.refusals.push_back({Errc::conflict, "another attempt"});
  Report late;
  const auto refused = linked.simulation.run(
      until_acknowledged<&Coordinator::report>(linked.jobs, linked.simulation.clock(), std::move(late)));
  EXPECT_EQ(refused.error().code, Errc::conflict);
}

TEST(Acknowledged, ABrokenLinkIsWaitedFor) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.simulation.transport().cut();
  linked.simulation.settle();
  Report report;
  EXPECT_TRUE(linked.simulation.run(
      until_acknowledged<&Coordinator::report>(linked.jobs, linked.simulation.clock(), std::move(report))));
  EXPECT_EQ(linked.book.reports, 1);
}

CheckpointShare share_of(std::size_t bytes) {
  CheckpointShare share;
  share.safetensors = Segment::own(Bytes(bytes));
  return share;
}

TEST(Acknowledged, APieceHasTheTimeThatItsSizeAsksForAndIsSentOnce) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.simulation.transport().limit_rate(20'000);
  const auto before = linked.simulation.clock().now();
  EXPECT_TRUE(linked.simulation.run(until_kept(linked.jobs, linked.simulation.clock(), share_of(2'000'000))));
  const auto took = linked.simulation.clock().now() - before;
  EXPECT_GE(took, 99s);
  EXPECT_LE(took, 105s);
  ASSERT_EQ(linked.book.pieces.size(), 1u);
  EXPECT_EQ(linked.book.pieces[0].bytes.size(), 2'000'000u);
  EXPECT_EQ(linked.book.announced.size(), 1u) << "the link held";
}

TEST(Acknowledged, AShareIsSentPieceByPiece) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  auto share = share_of(25);
  share.rank = 3;
  share.step = 7;
  EXPECT_TRUE(linked.simulation.run(until_kept(linked.jobs, linked.simulation.clock(), share, 10)));
  ASSERT_EQ(linked.book.pieces.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& piece = linked.book.pieces[i];
    EXPECT_EQ(piece.rank, 3u);
    EXPECT_EQ(piece.step, 7u);
    EXPECT_EQ(piece.share_bytes, 25u);
    EXPECT_EQ(piece.offset, 10 * i);
    EXPECT_EQ(piece.bytes.size(), i == 2 ? 5u : 10u);
  }
}

TEST(Acknowledged, APieceIsSentAgainOverANewLinkButNotBehindItself) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.book.refusals.push_back({Errc::peer_lost, "as if its answer was lost with the link"});
  linked.book.refusals.push_back({Errc::mailbox_full, "not now"});
  EXPECT_TRUE(linked.simulation.run(until_kept(linked.jobs, linked.simulation.clock(), share_of(20), 10)));
  std::vector<std::uint64_t> offsets;
  for (const auto& piece : linked.book.pieces) offsets.push_back(piece.offset);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 0, 0, 10}));
  linked.book.refusals.push_back({Errc::deadline_exceeded, "as if it was still under way"});
  const auto late = linked.simulation.run(until_kept(linked.jobs, linked.simulation.clock(), share_of(20), 10));
  EXPECT_EQ(late.error().code, Errc::deadline_exceeded);
  EXPECT_EQ(linked.book.pieces.size(), 5u);
}

TEST(Acknowledged, AShareThatIsRefusedIsNotSentToItsEnd) {
  Linked linked;
  ASSERT_TRUE(linked.announced(1));
  linked.book.refusals.push_back({Errc::conflict, "another attempt"});
  const auto refused = linked.simulation.run(until_kept(linked.jobs, linked.simulation.clock(), share_of(20), 10));
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_EQ(linked.book.pieces.size(), 1u);
}

}  // namespace
}  // namespace weir::protocol
