#include "training/state_server/state_server.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"
#include "collectives/topologies/ring.hpp"
#include "collectives/transports/in_process.hpp"
#include "collectives/transports/mesh.hpp"

namespace weir::training {
namespace {

using collectives::Fabric;
using collectives::Send;
using collectives::Task;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Answers until all have left.
Result<void> serve_all(Fabric& fabric, std::uint32_t workers) {
  StepBudget rule({.workers = workers});
  StateServer server(fabric, rule, seconds);
  while (true) {
    const auto left = server.serve();
    if (!left) return left.error();
    if (*left) return {};
  }
}

std::vector<std::uint32_t> first_ranks(std::uint32_t count) {
  std::vector<std::uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// Adds up a number over the workers, who are a part of the group.
Result<float> sum_over(Fabric& workers, float number) {
  auto summed = workers.thread().run([&]() -> Task<> {
    collectives::Ring ring(workers.lane(0));
    const collectives::Buffer buffer{std::as_writable_bytes(std::span(&number, 1))};
    co_return co_await ring.all_reduce(buffer, collectives::ReduceOp::sum, collectives::Subject());
  });
  if (!summed) return summed.error();
  return number;
}

TEST(StateServer, GuidesWorkersThroughTheirRoundsBesideTheirExchanges) {
  constexpr std::uint32_t workers = 3;
  constexpr std::uint64_t rounds = 20;
  auto fabrics = collectives::in_process_group(workers + 1, 2);
  std::vector<std::uint64_t> steps(workers);
  std::vector<Result<void>> results(workers + 1, Result<void>());
  // The slowest is at its step, by the server's clock, until the others have been told how much time that leaves them.
  std::deque<std::latch> told;
  for (std::uint64_t round = 0; round < rounds; ++round) told.emplace_back(workers - 1);
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      results[workers] = serve_all(*fabrics[workers], workers);
      fabrics[workers]->close();
    });
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = [&]() -> Result<void> {
          StateClient server(*fabrics[rank], workers);
          const auto part = collectives::part_of(*fabrics[rank], first_ranks(workers), 1);
          const double duration = rank == 0 ? 1.0 : 0.1;  // as it says: nothing is slept
          for (std::uint64_t round = 0; round < rounds; ++round) {
            WorkerState state{.round = round};
            while (true) {
              const auto more = server.more(state, 7 * round);
              if (rank != 0 && state.steps == 0) told[round].count_down();
              if (!more) return more.error();
              if (more->steps == 0) break;
              if (rank == 0) told[round].wait();
              state.steps += more->steps;
              state.step_seconds = duration;
              steps[rank] += more->steps;
            }
            const auto sum = sum_over(*part, 1);
            if (!sum) return sum.error();
            EXPECT_EQ(*sum, workers);
          }
          return server.leave(7 * rounds, true);
        }();
        fabrics[rank]->close();
      });
    }
  }
  for (const auto& result : results) EXPECT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(steps[0], rounds) << "the slowest makes one step a round";
  for (const std::uint32_t rank : {1U, 2U}) EXPECT_GT(steps[rank], rounds) << "others have time for more";
}

using Words = std::array<std::uint64_t, 10>;

/// A group of two, whose worker sends this message as its question of this number: why the server ends.
Error served(BytesView message, std::uint64_t number) {
  auto fabrics = collectives::in_process_group(2, 2);
  Result<void> result;
  Result<Grant> answer = Grant();
  {
    std::jthread server([&] { result = serve_all(*fabrics[1], 1); });
    (void)fabrics[0]->thread().run([&]() -> Task<> {
      Send sent(fabrics[0]->lane(StateServer::lane_of(*fabrics[0])), 1, {.version = number}, message);
      co_return co_await sent;
    });
    StateClient client(*fabrics[0], 1);
    answer = client.more({}, 0);
  }
  EXPECT_FALSE(answer.has_value()) << "the group has ended on the other rank, too";
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

TEST(StateServer, RefusesMessagesThatAreNoQuestions) {
  const auto bytes_of = [](const Words& question) { return std::as_bytes(std::span(question)); };
  const auto expect = [](const Error& error, const std::string& what) {
    EXPECT_EQ(error.code, Errc::malformed) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
  };
  const double one = 1;
  Words fine{};
  std::memcpy(&fine[9], &one, sizeof one);
  expect(served(BytesView(bytes_of(fine)).first(79), 0), "79 bytes where 80 are due");
  Words late = fine;
  late[2] = 7;
  expect(served(bytes_of(late), 0), "worker 0 tells the state server of round 7");
  expect(served(bytes_of(fine), 3), "worker 0 asks the state server question 3 where 0 is due");
  expect(served(bytes_of({0}), 0), "a share that is none");
  expect(served(bytes_of({3}), 0), "no question");
  expect(served(bytes_of({~0ULL}), 0), "no question");
  expect(served(bytes_of({2, 0, 0, 0, 0, ~0ULL}), 0), "bytes to measure its link by");
}

/// What a worker in this state says of a state server that answers its question like this.
Error answered(std::uint64_t steps, double share, const WorkerState& state = {}) {
  std::array<std::uint64_t, 2> answer{steps, 0};
  std::memcpy(&answer[1], &share, sizeof share);
  auto fabrics = collectives::in_process_group(2, 2);
  const auto lane = StateServer::lane_of(*fabrics[1]);
  const std::jthread server([&] {
    (void)fabrics[1]->thread().run([&]() -> Task<> {
      Words question{};
      collectives::Filler into(std::as_writable_bytes(std::span(question)));
      collectives::Receive arrival(fabrics[1]->lane(lane), 0, {}, into);
      if (auto done = co_await arrival; !done) co_return done.error();
      Send sent(fabrics[1]->lane(lane), 0, {}, std::as_bytes(std::span(answer)));
      co_return co_await sent;
    });
  });
  const auto granted = StateClient(*fabrics[0], 1).more(state, 0);
  return granted ? Error{} : granted.error();
}

TEST(StateServer, AWorkerRefusesAnswersThatCannotBe) {
  for (const double share : {0.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_EQ(answered(1, share).code, Errc::malformed) << share;
  }
  EXPECT_EQ(answered(10'001, 1).code, Errc::malformed);
  EXPECT_FALSE(answered(9'999, 1, {.steps = 1}).code);
  EXPECT_EQ(answered(10'000, 1, {.steps = 1}).context, "the state server grants 10000 steps after 1 in one round");
  EXPECT_EQ(answered(1, 1, {.steps = ~0ULL}).code, Errc::malformed);
}

TEST(StateServer, WorkersMustAgreeOnTheStepOfTheJob) {
  for (const bool leaves : {false, true}) {
    auto fabrics = collectives::in_process_group(3, 2);
    Result<void> served;
    {
      std::jthread server([&] { served = serve_all(*fabrics[2], 2); });
      StateClient one(*fabrics[0], 2);
      StateClient other(*fabrics[1], 2);
      if (leaves) {
        EXPECT_TRUE(one.leave(5, true));
        (void)other.leave(6, true);
      } else {
        EXPECT_TRUE(one.more({}, 5));
        EXPECT_FALSE(other.more({}, 6));
      }
    }
    ASSERT_FALSE(served);
    EXPECT_EQ(served.error().code, Errc::malformed);
    EXPECT_NE(served.error().message().find("worker 1 tells the state server of step 6 of the job where others are in "
                                            "step 5"),
              std::string::npos)
        << served.error().message();
  }
}

TEST(StateServer, ReturnsWhenTheJobHasMovedOn) {
  auto fabrics = collectives::in_process_group(2, 2);
  StepBudget rule({.workers = 1});
  StateServer server(*fabrics[1], rule, seconds);
  std::vector<std::uint64_t> steps;
  {
    std::jthread worker([&] {
      StateClient client(*fabrics[0], 1);
      for (std::uint64_t round = 0; round < 3; ++round) {
        EXPECT_EQ(client.more({.round = round}, 4 + round)->steps, 1U);
        EXPECT_EQ(client.more({.round = round, .steps = 1, .step_seconds = 1}, 4 + round)->steps, 0U);
      }
      EXPECT_TRUE(client.leave(7, false));
    });
    while (!server.serve().value()) steps.push_back(server.job_step());
  }
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{4, 5, 6}));
  EXPECT_EQ(server.job_step(), 7U);
  EXPECT_FALSE(server.finished());
}

TEST(StateServer, AWorkerMeasuresItsLinkToIt) {
  auto fabrics = collectives::in_process_group(3, 2);
  Result<void> served;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { served = serve_all(*fabrics[2], 2); });
    for (const std::uint32_t rank : {0U, 1U}) {
      threads.emplace_back([&, rank] {
        StateClient client(*fabrics[rank], 2);
        EXPECT_EQ(client.link_bytes_per_second(), 0);
        const double limit = rank == 0 ? 0 : 1e5;  // far less than memory carries
        const auto measured = client.measure_link(1 << 20, limit);
        EXPECT_TRUE(measured) << measured.error().message();
        EXPECT_GT(client.link_bytes_per_second(), 0);
        if (limit > 0) {
          EXPECT_LE(client.link_bytes_per_second(), limit);
        }
        EXPECT_GE(fabrics[rank]->traffic().sent_bytes, 5U << 10) << "two messages at least";
        EXPECT_LT(fabrics[rank]->traffic().sent_bytes, 3U << 20) << "no more than it may";
        EXPECT_TRUE(client.leave(0, true));
      });
    }
  }
  EXPECT_TRUE(served) << served.error().message();
}

TEST(StateServer, ALinkThatTheJobMakesSlowIsNotMeasured) {
  auto fabrics = collectives::in_process_group(2, 2);
  Result<void> served;
  {
    std::jthread server([&] { served = serve_all(*fabrics[1], 1); });
    StateClient client(*fabrics[0], 1);
    EXPECT_TRUE(client.measure_link(1 << 20, 125));
    EXPECT_EQ(client.link_bytes_per_second(), 125);
    EXPECT_EQ(fabrics[0]->traffic().sent_bytes, 0U);
    EXPECT_TRUE(client.leave(0, true));
  }
  EXPECT_TRUE(served) << served.error().message();
}

/// Does something for each of two ranks at once.
void on_both(const std::function<void(std::uint32_t)>& body) {
  const std::jthread first(body, 0);
  const std::jthread second(body, 1);
}

// The limit of the sockets stands for that of a line, which nobody knows.
TEST(StateServer, ASlowLinkIsMeasuredWithFewBytes) {
  std::vector<std::unique_ptr<collectives::Mesh>> meshes;
  std::vector<collectives::Peer> peers;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    meshes.push_back(collectives::Mesh::bind("127.0.0.1").value());
    peers.push_back({"127.0.0.1", meshes.back()->port()});
  }
  std::vector<std::unique_ptr<Fabric>> fabrics(2);
  on_both([&](std::uint32_t rank) {
    const collectives::Group own{.job_id = "test",
                                 .attempt = 1,
                                 .secret = "secret",
                                 .rank = rank,
                                 .size = 2,
                                 .bytes_per_second = rank == 0 ? 10'000.0 : 0.0};
    fabrics[rank] = meshes[rank]->join(own, peers, std::chrono::seconds(60)).value();
  });
  Result<void> served;
  {
    std::jthread server([&] { served = serve_all(*fabrics[1], 1); });
    StateClient client(*fabrics[0], 1);
    EXPECT_TRUE(client.measure_link(1 << 20, 0));
    EXPECT_GT(client.link_bytes_per_second(), 0);
    EXPECT_LT(fabrics[0]->traffic().sent_bytes, 32U << 10);
    EXPECT_TRUE(client.leave(0, true));
  }
  EXPECT_TRUE(served) << served.error().message();
  on_both([&](std::uint32_t rank) { fabrics[rank]->close(); });
}

TEST(StateServer, AWorkerThatIsLostEndsAll) {
  auto fabrics = collectives::in_process_group(3, 2);
  Result<void> served;
  {
    std::jthread server([&] { served = serve_all(*fabrics[2], 2); });
    StateClient client(*fabrics[0], 2);
    EXPECT_TRUE(client.more({}, 0).has_value());
    fabrics[1].reset();
  }
  ASSERT_FALSE(served.has_value());
  EXPECT_EQ(served.error().code, Errc::peer_lost) << served.error().message();
  EXPECT_EQ(fabrics[2]->lost_rank(), 1U);
}

}  // namespace
}  // namespace weir::training
