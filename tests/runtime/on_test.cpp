#include "runtime/on.hpp"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "runtime/event.hpp"

namespace weir::runtime {
namespace {

/// Two loops that the test steps by hand: the caller lives on one, its task runs on the other.
class OnTest : public ::testing::Test {
 protected:
  net::awaitable<std::string> wait_there() {
    const bool set = co_await event_.wait();
    co_return set ? "set" : "cancelled";
  }
  net::awaitable<void> caller() {
    auto task = wait_there();
    result_ = co_await on(there_.get_executor(), std::move(task));
  }
  net::awaitable<void> fail_there() {
    throw std::runtime_error("on purpose");
    co_return;
  }
  net::awaitable<void> caller_of_failure() {
    auto task = fail_there();
    try {
      co_await on(there_.get_executor(), std::move(task));
    } catch (const std::runtime_error& e) {
      result_ = e.what();
    }
  }
  void start(net::awaitable<void> task) {
    net::co_spawn(here_, std::move(task),
                  net::bind_cancellation_slot(cancel_.slot(), [](const std::exception_ptr&) {}));
  }

  net::io_context here_;
  net::io_context there_;
  Event event_;
  net::cancellation_signal cancel_;
  std::optional<std::string> result_;
};

TEST_F(OnTest, ResultComesBackToTheCallersExecutor) {
  start(caller());
  here_.poll();
  there_.poll();
  event_.set();
  there_.poll();
  EXPECT_FALSE(result_) << "the caller was resumed on the task's executor";
  here_.poll();
  EXPECT_EQ(result_, "set");
}

TEST_F(OnTest, WhatTheTaskThrowsReachesTheCaller) {
  start(caller_of_failure());
  here_.poll();
  there_.poll();
  here_.poll();
  EXPECT_EQ(result_, "on purpose");
}

TEST_F(OnTest, CancellingTheCallerLeavesNothingBehindThatOutlivesTheTask) {
  start(caller());
  here_.poll();
  there_.poll();
  event_.set();                                    // the task's end waits in its loop ...
  cancel_.emit(net::cancellation_type::terminal);  // ... when its caller is cancelled
  there_.run_one();
  there_.restart();
  here_.poll();  // the caller ends, and with it everything that it owned
  here_.restart();
  EXPECT_EQ(there_.poll(), 0u) << "a cancellation was on its way to a task that no longer exists";
  EXPECT_EQ(result_, "set") << "what has begun elsewhere is finished there";
}

}  // namespace
}  // namespace weir::runtime
