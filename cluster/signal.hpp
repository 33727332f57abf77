#pragma once

#include <memory>
#include <vector>

#include "runtime/asio.hpp"
#include "runtime/clock.hpp"

namespace weir::cluster {

/// "Something changed, look again": coroutines wait, others notify. All on one strand.
class Signal {
 public:
  /// Waits for notify(), until `when`, or until cancelled. True if notified. A notify() while nobody waited counts for
  /// the next one who does.
  net::awaitable<bool> wait_until(runtime::Clock& clock, runtime::Clock::time_point when);

  /// Wakes all who wait.
  void notify();

 private:
  struct Waiter;
  struct Start;

  bool pending_ = false;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

}  // namespace weir::cluster
