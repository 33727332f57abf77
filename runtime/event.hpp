#pragma once

#include <memory>

#include "runtime/asio.hpp"

namespace weir::runtime {

/// A flag that coroutines wait for: set once, stays set. A value, copies are the same flag; any thread.
class Event {
 public:
  Event();

  /// Lets all waiters go on, each on its own executor.
  void set() const;
  bool is_set() const;

  /// True once the flag is set, false if the wait was cancelled.
  net::awaitable<bool> wait() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weir::runtime
