#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "runtime/asio.hpp"

namespace weir::runtime {

/// One pending alarm of a Clock. Destroying it cancels the alarm; if that happens on the alarm's own executor, the
/// callback does not run afterwards.
class Timer {
 public:
  virtual ~Timer() = default;
};

/// The source of time. Injected, so that tests can run hours in a millisecond. Thread-safe.
class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;

  /// Monotonic time, for deadlines.
  virtual time_point now() const = 0;

  /// Calendar time, for records that people read, never for deadlines.
  virtual std::chrono::system_clock::time_point wall() const = 0;

  /// Runs `callback` once on `executor` at or after `when`.
  virtual std::unique_ptr<Timer> set_timer(net::any_io_executor executor, time_point when,
                                           std::function<void()> callback) = 0;

  /// Suspends the coroutine until `when`. Returns false if it was cancelled before that.
  net::awaitable<bool> sleep_until(time_point when);
  net::awaitable<bool> sleep_for(duration time);
};

/// The machine's clock.
class SystemClock final : public Clock {
 public:
  time_point now() const override;
  std::chrono::system_clock::time_point wall() const override;
  std::unique_ptr<Timer> set_timer(net::any_io_executor executor, time_point when,
                                   std::function<void()> callback) override;
};

}  // namespace weir::runtime
