// What fails in a job with servers: who notices, and what it is told.

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <latch>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "served_job.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/messenger.hpp"

namespace weir::training {
namespace {

using servers::Kind;
using servers::Messenger;
using servers::Push;
using testing::run_ranks;
using testing::served_job;
using testing::ServedJob;

constexpr std::uint32_t workers = 2;

/// A job of which rank `culprit` does something else than its work, and `idle`, if it is a rank, nothing. Returns what
/// the others end with.
std::vector<Result<bool>> run_with(ServedJob& job, std::uint32_t culprit, const std::function<void(Messenger&)>& acts,
                                   std::uint32_t idle = ~0U) {
  job.prepare();
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (rank == culprit || rank == idle) job.replicas[rank]->mode.reset();
  }
  run_ranks(job.ranks(), [&](std::uint32_t rank) {
    if (rank != culprit && rank != idle) return job.run_rank(rank);
    Messenger messenger(*job.group[rank], {.bytes_max = 1 << 24});
    if (rank == culprit) acts(messenger);
    while (messenger.next()) {
    }
  });
  return job.results;
}

Bytes push_of(const Push& push, std::size_t bytes, float value = 0) {
  Bytes body;
  servers::write(body, push);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) append(body, std::as_bytes(std::span(&value, 1)));
  return body;
}

/// What server 0 ends with when worker 1 sends `body` in the place of a push.
Error answer_to(const Bytes& body, Kind kind = Kind::push, bool twice = false) {
  ServedJob job(served_job("async", {{"servers", 2}}), workers);
  const auto results = run_with(job, 1, [&](Messenger& messenger) {
    EXPECT_TRUE(messenger.next());  // leave to begin
    messenger.send(workers, servers::subject(kind, 1), body);
    if (twice) messenger.send(workers, servers::subject(kind, 1), body);
  });
  for (const std::uint32_t rank : {0U, 2U, 3U}) EXPECT_FALSE(results[rank]) << rank;
  for (const std::uint32_t rank : {0U, 3U}) EXPECT_TRUE(job.group[rank]->ended_by_another()) << rank;
  return results[workers] ? Error() : results[workers].error();
}

/// Bytes of the tensors of server 0 in a job with two.
std::size_t bytes_of_first() {
  const auto server = servers::Server::make(served_job("async", {{"servers", 2}}), {0, workers, 2}).value();
  std::size_t bytes = 0;
  for (const auto& tensor : server->shard->tensors()) bytes += tensor.tensor.nbytes();
  return bytes;
}

void expect_named(const Error& error, const std::string& what) {
  EXPECT_EQ(error.code, Errc::malformed) << error.message();
  EXPECT_NE(error.message().find("rank 1"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
}

TEST(HostileWorker, IsNamedWithTheTensor) {
  const std::size_t bytes = bytes_of_first();
  const Push push{.clock = 1};
  expect_named(answer_to(push_of(push, bytes - 4)), "gradient of ");
  expect_named(answer_to(push_of(push, bytes + 4)), "4 bytes are left");
  expect_named(answer_to(push_of(push, bytes, std::numeric_limits<float>::quiet_NaN())), "not finite");
  expect_named(answer_to(push_of({.clock = 1, .buffers = 4}, bytes)), "buffers");
  expect_named(answer_to(Bytes(3)), "too early");
}

TEST(HostileWorker, IsNamedWhenItIsNotItsTurn) {
  const std::size_t bytes = bytes_of_first();
  expect_named(answer_to(push_of({.clock = 2}, bytes)), "number 2 where 1 is due");
  expect_named(answer_to(push_of({.clock = 1, .version = 1000}, bytes)), "version 1000");
  expect_named(answer_to(push_of({.clock = 1, .step = 1000}, bytes)), "step 1000");
  expect_named(answer_to({}, Kind::halted), "nobody has asked");
  expect_named(answer_to({}, Kind::rested), "not from this rank");
  expect_named(answer_to({}, static_cast<Kind>(99)), "kind of message");
  expect_named(answer_to(Bytes(1 << 24)), "bytes where at most");
  expect_named(answer_to(push_of({.clock = 1}, bytes), Kind::push, true), "number 1 where 2 is due");
}

TEST(HostileWorker, MayNotPushAfterAHalt) {
  auto spec = served_job("async", {{"servers", 1}});
  spec.checkpoint_every_steps = 1;
  ServedJob job(spec, workers);
  std::size_t bytes = 0;
  for (const auto& parameter : Replica::make(spec, 0, workers, 1).value()->model->parameters()) {
    bytes += parameter.tensor.nbytes();
  }
  const auto acts = [&](Messenger& messenger) {
    EXPECT_TRUE(messenger.next());
    const auto push = [&](std::uint64_t clock) {
      messenger.send(workers, servers::subject(Kind::push, clock), push_of({.clock = clock}, bytes));
    };
    const auto flags = [&] {
      const auto message = messenger.next();
      return message ? servers::Reader(message->body).answer().value().flags : ~std::uint64_t{0};
    };
    push(1);
    EXPECT_EQ(flags(), 0u);
    push(2);  // with which the first step is complete
    EXPECT_EQ(flags(), servers::Answer::halt);
    messenger.send(workers, servers::subject(Kind::halted, 2), {});
    push(3);
  };
  const auto results = run_with(job, 1, acts, /*idle=*/0);
  ASSERT_FALSE(results[workers]);
  expect_named(results[workers].error(), "it has halted");
}

/// What a rank ends with that takes none of many messages of rank `from`, and of rank 0 may let eight more wait.
Error error_after_many_of(std::uint32_t from) {
  constexpr std::uint32_t to = 2;
  constexpr std::uint32_t many = 20;
  auto group = collectives::in_process_group(3, 2);
  std::latch others_have_ended(2);
  Error error;
  run_ranks(3, [&](std::uint32_t rank) {
    Messenger messenger(*group[rank], {.bytes_max = 64, .announcer = 0, .announcements_max = 8});
    for (std::uint32_t i = 0; rank == from && i < many; ++i) messenger.send(to, servers::subject(Kind::late, i), {});
    if (rank == to) others_have_ended.wait();
    auto message = messenger.next();
    while (message) message = messenger.next();
    if (rank == to) {
      error = message.error();
    } else {
      others_have_ended.count_down();
    }
  });
  return error;
}

TEST(Messenger, LetsMoreMessagesWaitOfOneRankOnly) {
  const auto of_first = error_after_many_of(0);
  EXPECT_EQ(of_first.code, Errc::malformed);
  EXPECT_NE(of_first.message().find("more than 12 messages"), std::string::npos) << of_first.message();
  const auto of_other = error_after_many_of(1);
  EXPECT_EQ(of_other.code, Errc::malformed);
  EXPECT_NE(of_other.message().find("more than 4 messages"), std::string::npos) << of_other.message();
}

TEST(HostileServer, AnswersOfOtherTensorsAreRefused) {
  const auto error_of = [](const Bytes& body, Kind kind) {
    ServedJob job(served_job("async", {{"servers", 1}}), workers);
    const auto results = run_with(job, workers, [&](Messenger& messenger) {
      Bytes leave;
      servers::write(leave, servers::Rest{});
      messenger.send(0, servers::subject(Kind::go_on, 0), leave);
      EXPECT_TRUE(messenger.next());  // the push of worker 0; worker 1 waits for its leave
      messenger.send(0, servers::subject(kind, 0), body);
    });
    EXPECT_FALSE(results[0]);
    EXPECT_FALSE(results[1]);
    return results[0].error();
  };
  Bytes answer;
  servers::write(answer, servers::Answer{.clock = 1});
  const auto cut = error_of(answer, Kind::answer);
  EXPECT_NE(cut.message().find("rank 2"), std::string::npos) << cut.message();
  EXPECT_NE(cut.message().find("parameter "), std::string::npos) << cut.message();
  Bytes other;
  servers::write(other, servers::Answer{.clock = 7});
  EXPECT_NE(error_of(other, Kind::answer).message().find("push 7"), std::string::npos);
  EXPECT_NE(error_of({}, Kind::part).message().find("in its place"), std::string::npos);
  EXPECT_EQ(error_of({}, Kind::part).code, Errc::malformed);
}

class Killed : public ::testing::TestWithParam<std::tuple<std::string, std::uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Killed,
                         ::testing::Combine(::testing::Values("async", "ssp", "backup"),
                                            ::testing::Values(1U, 2U, 3U)));

/// A worker, the first server, or the other.
TEST_P(Killed, AllOthersEndWithItsName) {
  const auto& [mode, victim] = GetParam();
  auto spec = served_job(mode, {{"servers", 2}});
  spec.training.epochs = 1000;  // longer than a busy machine keeps the victim from coming to its third step
  ServedJob job(spec, workers);
  job.prepare();
  const auto dies = [&job, victim = victim] { job.group[victim]->abort({Errc::cancelled, "killed"}, /*leaves=*/true); };
  job.told[1]->on_step = [&, victim = victim](const Replica&, const StepRecord&) -> Result<void> {
    if (victim < workers && job.told[1]->records.size() == 3) dies();
    return {};
  };
  for (const std::uint32_t server : {2U, 3U}) {
    job.told[server]->on_served = [&, server, victim = victim](const ServedRecord& record) {
      if (server == victim && record.step == 3) dies();
    };
  }
  run_ranks(job.ranks(), [&](std::uint32_t rank) { job.run_rank(rank); });
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    ASSERT_FALSE(job.results[rank]) << rank;
    if (rank == victim) continue;
    EXPECT_EQ(job.results[rank].error().code, Errc::peer_lost) << job.results[rank].error().message();
    EXPECT_EQ(job.group[rank]->lost_rank(), victim) << rank;
  }
}

/// Examples of a worker that is ten times as slow as another.
class SlowExamples final : public Examples {
 public:
  /// Counts the batches of both, and is opened at the end.
  struct Gate {
    void pass(std::uint64_t needed) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open || fast >= needed; });
    }
    /// The fast one has made a batch. Before the next ten it waits for the slow one's, which has been let through: a
    /// busy machine may not have run it yet.
    void fast_made_one() {
      std::unique_lock lock(mutex);
      ++fast;
      changed.notify_all();
      if (fast % 10 == 9) changed.wait(lock, [&] { return open || slow >= fast / 10; });
    }
    void slow_made_one() {
      const std::lock_guard lock(mutex);
      ++slow;
      changed.notify_all();
    }
    void open_it() {
      const std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t fast = 0;
    std::uint64_t slow = 0;
    bool open = false;
  };

  SlowExamples(std::unique_ptr<Examples> examples, Gate& gate) : examples_(std::move(examples)), gate_(gate) {}
  std::span<const std::uint16_t> classes() const override { return examples_->classes(); }
  std::uint64_t hash() const override { return examples_->hash(); }

 private:
  Batch make(std::span<const std::uint32_t> positions, const Pass* /*pass*/, const Batch& /*memory*/) const override {
    gate_.pass(10 * ++batches_);
    return examples_->batch(positions);
  }

  std::unique_ptr<Examples> examples_;
  Gate& gate_;
  mutable std::uint64_t batches_ = 0;
};

TEST(SlowWorker, HoldsNobodyUpWithoutABound) {
  for (const std::string mode : {"async", "backup"}) {
    auto spec = served_job(mode, {{"servers", 2}});
    spec.training.epochs = 4;
    ServedJob job(spec, workers);
    job.prepare();
    SlowExamples::Gate gate;
    job.replicas[1]->examples = std::make_unique<SlowExamples>(std::move(job.replicas[1]->examples), gate);
    job.told[0]->on_step = [&](const Replica&, const StepRecord&) -> Result<void> {
      gate.fast_made_one();
      return {};
    };
    job.told[1]->on_step = [&](const Replica&, const StepRecord&) -> Result<void> {
      gate.slow_made_one();
      return {};
    };
    job.first_server().on_served = [&](const ServedRecord& record) {
      if (record.step >= job.servers[0]->length.steps_total) gate.open_it();
    };
    run_ranks(job.ranks(), [&](std::uint32_t rank) { job.run_rank(rank); });
    for (const auto& result : job.results) ASSERT_TRUE(result) << result.error().message();
    const auto& clocks = job.servers[0]->counts.clocks;
    EXPECT_GT(clocks[0], 8 * clocks[1]) << mode;
    std::uint64_t stalest = 0;
    std::uint64_t dropped = 0;
    for (const auto& record : job.first_server().served_records) {
      stalest = std::max(stalest, record.staleness_max);
      dropped += record.dropped;
    }
    if (mode == "async") {
      EXPECT_GE(stalest, 8u);
      EXPECT_EQ(dropped, 0u);
    } else {
      EXPECT_EQ(stalest, 0u);
      EXPECT_GT(dropped, 0u);
    }
  }
}

}  // namespace
}  // namespace weir::training
