#include "runtime/event_loop.hpp"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

namespace weir::runtime {
namespace {

namespace net = boost::asio;

TEST(EventLoop, EndsWhenNoWorkIsLeft) {
  net::io_context io{1};
  int handled = 0;
  net::post(io, [&] {
    ++handled;
    net::post(io, [&] { ++handled; });
  });
  run(io);
  EXPECT_EQ(handled, 2);
  EXPECT_TRUE(io.stopped());
}

TEST(EventLoop, SleepsUntilATimerAndEndsAfterIt) {
  net::io_context io{1};
  net::steady_timer timer(io, 4 * attention);
  bool rang = false;
  timer.async_wait([&](auto) { rang = true; });
  run(io);
  EXPECT_TRUE(rang);
}

TEST(EventLoop, IsStoppedByAHandlerThoughThereIsWork) {
  net::io_context io{1};
  const auto work = net::make_work_guard(io);
  net::post(io, [&] { io.stop(); });
  run(io);
  EXPECT_TRUE(io.stopped());
}

TEST(EventLoop, IsWokenByAnotherThread) {
  net::io_context io{1};
  const auto work = net::make_work_guard(io);
  std::jthread other([&] { net::post(io, [&] { io.stop(); }); });
  run(io);
  EXPECT_TRUE(io.stopped());
}

}  // namespace
}  // namespace weir::runtime
