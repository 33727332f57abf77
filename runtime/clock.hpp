#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "runtime/asio.hpp"

namespace weir::runtime {

/// One pending alarm of a Clock. Owned by whoever set it; destroying or resetting it cancels the alarm: once that has
/// been done on the alarm's own executor, the callback does not run any more.
class Timer {
 public:
  virtual ~Timer() = default;
};

/// Where time comes from. Injected, so that tests can run hours in a millisecond. Any thread may call it.
class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;

  /// Never goes back. The one to measure deadlines with.
  virtual time_point now() const = 0;

  /// The calendar's time: for records that people read, never for deadlines.
  virtual std::chrono::system_clock::time_point wall() const = 0;

  /// Runs `callback` once on `executor` at or after `when`.
  virtual std::unique_ptr<Timer> set_timer(net::any_io_executor executor, time_point when,
                                           std::function<void()> callback) = 0;

  /// Suspends the coroutine until `when`. False if it was cancelled before that.
  net::awaitable<bool> sleep_until(time_point when);
  net::awaitable<bool> sleep_for(duration time);
};

/// The clock of the machine.
class SystemClock final : public Clock {
 public:
  time_point now() const override;
  std::chrono::system_clock::time_point wall() const override;
  std::unique_ptr<Timer> set_timer(net::any_io_executor executor, time_point when,
                                   std::function<void()> callback) override;
};

}  // namespace weir::runtime
