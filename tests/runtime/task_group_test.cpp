#include "runtime/task_group.hpp"

#include <gtest/gtest.h>

#include <boost/asio/strand.hpp>
#include <stdexcept>

#include "runtime/event.hpp"
#include "runtime/testing/simulation.hpp"

namespace weir::runtime {
namespace {

class TaskGroupTest : public ::testing::Test {
 protected:
  static net::awaitable<void> doze(Clock& clock, std::chrono::seconds time, bool& woke) {
    woke = co_await clock.sleep_for(time);
  }
  static net::awaitable<void> fail() {
    throw std::runtime_error("on purpose");
    co_return;
  }
  /// Ignores the mild cancellation, as an operation that would lose its work may.
  static net::awaitable<void> insist(Clock& clock, bool& ended) {
    co_await net::this_coro::reset_cancellation_state(net::enable_terminal_cancellation());
    co_await clock.sleep_for(std::chrono::hours(10));
    ended = true;
  }
  static net::awaitable<void> join(TaskGroup& group, bool& done) {
    co_await group.join();
    done = true;
  }

  testing::Simulation simulation_{1};
  net::any_io_executor strand_ = net::make_strand(simulation_.executor());
  TaskGroup group_{strand_, "group"};
};

TEST_F(TaskGroupTest, JoinWaitsForTheLastTask) {
  bool first = false;
  bool second = false;
  bool joined = false;
  group_.spawn("first", doze(simulation_.clock(), std::chrono::seconds(1), first));
  group_.spawn("second", doze(simulation_.clock(), std::chrono::seconds(2), second));
  net::co_spawn(strand_, join(group_, joined), [](const std::exception_ptr& e) { EXPECT_FALSE(e); });
  simulation_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(first);
  EXPECT_FALSE(joined);
  EXPECT_EQ(group_.size(), 1u);
  simulation_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(second && joined);
}

TEST_F(TaskGroupTest, AnExceptionEndsOnlyItsTask) {
  bool woke = false;
  group_.spawn("thrower", fail());
  group_.spawn("sleeper", doze(simulation_.clock(), std::chrono::seconds(1), woke));
  simulation_.pass(std::chrono::seconds(1));
  EXPECT_TRUE(woke);
  EXPECT_EQ(group_.size(), 0u);
}

TEST_F(TaskGroupTest, StopCancelsAtOnceAndTakesNoNewTasks) {
  bool woke = true;
  group_.spawn("sleeper", doze(simulation_.clock(), std::chrono::hours(10), woke));
  simulation_.settle();
  const auto before = simulation_.clock().now();
  simulation_.run(group_.stop(simulation_.clock()));
  EXPECT_FALSE(woke);
  EXPECT_EQ(simulation_.clock().now(), before);
  bool late = false;
  group_.spawn("late", doze(simulation_.clock(), std::chrono::seconds(1), late));
  simulation_.pass(std::chrono::seconds(2));
  EXPECT_FALSE(late);
}

TEST_F(TaskGroupTest, StopInsistsAfterTheGrace) {
  bool ended = false;
  group_.spawn("stubborn", insist(simulation_.clock(), ended));
  simulation_.settle();
  const auto before = simulation_.clock().now();
  simulation_.run(group_.stop(simulation_.clock(), std::chrono::seconds(3)));
  EXPECT_EQ(simulation_.clock().now() - before, std::chrono::seconds(3));
  EXPECT_EQ(group_.size(), 0u);
}

TEST_F(TaskGroupTest, AGroupThatGoesAwayCancels) {
  bool woke = true;
  {
    TaskGroup inner(strand_, "inner");
    inner.spawn("sleeper", doze(simulation_.clock(), std::chrono::hours(10), woke));
    simulation_.settle();
  }
  simulation_.settle();
  EXPECT_FALSE(woke);
}

net::awaitable<Result<bool>> wait_for(Event event) { co_return co_await event.wait(); }

TEST(EventTest, WaitersBeforeAndAfterGoOn) {
  testing::Simulation simulation(1);
  Event event;
  int woken = 0;
  for (int i = 0; i < 3; ++i) {
    net::co_spawn(simulation.executor(), wait_for(event),
                  [&](const std::exception_ptr&, Result<bool> set) { woken += *set ? 1 : 0; });
  }
  simulation.settle();
  EXPECT_EQ(woken, 0);
  event.set();
  simulation.settle();
  EXPECT_EQ(woken, 3);
  EXPECT_TRUE(*simulation.run(wait_for(event)));
}

}  // namespace
}  // namespace weir::runtime
