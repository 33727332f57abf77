#pragma once

#include <memory>
#include <vector>

#include "runtime/asio.hpp"
#include "runtime/clock.hpp"

namespace weir::cluster {

/// Tells waiting coroutines that something has changed and that they must check their condition again. Used on one
/// strand.
class Signal {
 public:
  /// Waits for notify(), until `when`, or until cancelled. Returns true if notified. A notify() while nobody waits is
  /// kept for the next wait.
  net::awaitable<bool> wait_until(runtime::Clock& clock, runtime::Clock::time_point when);

  /// Wakes all waiting coroutines.
  void notify();

 private:
  struct Waiter;
  struct Start;

  bool pending_ = false;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

}  // namespace weir::cluster
