#pragma once

#include <memory>

#include "runtime/asio.hpp"

namespace weir::runtime {

/// A flag that coroutines can wait for. Once set it stays set. Copies refer to the same flag. Thread-safe.
class Event {
 public:
  Event();

  /// Sets the flag and resumes all waiters, each on its own executor.
  void set() const;
  bool is_set() const;

  /// Waits for the flag. Returns true once it is set, false if the wait was cancelled.
  net::awaitable<bool> wait() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weir::runtime
