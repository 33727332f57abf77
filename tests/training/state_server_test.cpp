#include "training/state_server/state_server.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "collectives/topologies/ring.hpp"
#include "collectives/transports/in_process.hpp"

namespace weir::training {
namespace {

using collectives::Fabric;
using collectives::Send;
using collectives::Task;

constexpr std::uint32_t state_lane = 1;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

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
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      StepBudget rule({.workers = workers});
      results[workers] = serve_states(*fabrics[workers], state_lane, rule, seconds);
      fabrics[workers]->close();
    });
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = [&]() -> Result<void> {
          StateClient server(*fabrics[rank], state_lane, workers);
          const auto part = collectives::part_of(*fabrics[rank], first_ranks(workers), 1);
          const double duration = rank == 0 ? 1.0 : 0.1;  // as it says: nothing is slept
          for (std::uint64_t round = 0; round < rounds; ++round) {
            WorkerState state{.round = round};
            while (true) {
              const auto more = server.more(state);
              if (!more) return more.error();
              if (*more == 0) break;
              state.steps += *more;
              state.step_seconds = duration;
              steps[rank] += *more;
            }
            const auto sum = sum_over(*part, 1);
            if (!sum) return sum.error();
            EXPECT_EQ(*sum, workers);
          }
          return server.leave();
        }();
        fabrics[rank]->close();
      });
    }
  }
  for (const auto& result : results) EXPECT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(steps[0], rounds) << "the slowest makes one step a round";
  EXPECT_GE(steps[1], rounds);
  EXPECT_GE(steps[2], rounds);
}

using Question = std::array<std::uint64_t, 5>;

/// A group of two, whose worker sends this message as its question of this number: why the server ends.
Error served(BytesView message, std::uint64_t number) {
  auto fabrics = collectives::in_process_group(2, 2);
  Result<void> result;
  Result<std::uint64_t> answer = 0;
  {
    std::jthread server([&] {
      StepBudget rule({.workers = 1});
      result = serve_states(*fabrics[1], state_lane, rule, seconds);
    });
    (void)fabrics[0]->thread().run([&]() -> Task<> {
      Send sent(fabrics[0]->lane(state_lane), 1, {.version = number}, message);
      co_return co_await sent;
    });
    StateClient client(*fabrics[0], state_lane, 1);
    answer = client.more({});
  }
  EXPECT_FALSE(answer.has_value()) << "the group has ended on the other rank, too";
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

TEST(StateServer, RefusesMessagesThatAreNoQuestions) {
  const auto bytes_of = [](const Question& question) { return std::as_bytes(std::span(question)); };
  const Question fine{0, 0, 0, 0, 0};
  const auto longer = served(BytesView(bytes_of(fine)).first(39), 0);
  EXPECT_EQ(longer.code, Errc::malformed) << longer.message();
  const Question later{0, 7, 0, 0, 0};
  const auto round = served(bytes_of(later), 0);
  EXPECT_EQ(round.code, Errc::malformed);
  EXPECT_NE(round.message().find("worker 0"), std::string::npos) << round.message();
  const auto number = served(bytes_of(fine), 3);
  EXPECT_EQ(number.code, Errc::malformed);
  EXPECT_NE(number.message().find("question 3 where 0 is due"), std::string::npos) << number.message();
}

TEST(StateServer, AWorkerThatIsLostEndsAll) {
  auto fabrics = collectives::in_process_group(3, 2);
  Result<void> served;
  {
    std::jthread server([&] {
      StepBudget rule({.workers = 2});
      served = serve_states(*fabrics[2], state_lane, rule, seconds);
    });
    StateClient client(*fabrics[0], state_lane, 2);
    EXPECT_TRUE(client.more({}).has_value());
    fabrics[1].reset();
  }
  ASSERT_FALSE(served.has_value());
  EXPECT_EQ(served.error().code, Errc::peer_lost) << served.error().message();
  EXPECT_EQ(fabrics[2]->lost_rank(), 1U);
}

}  // namespace
}  // namespace weir::training
