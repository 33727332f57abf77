#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/asio.hpp"
#include "runtime/clock.hpp"

namespace weir::runtime {

/// The only way to start a coroutine that nobody awaits: it has a name, what it throws is logged, it can be cancelled,
/// and its end can be awaited.
/// All members run on the group's executor, which is a strand or belongs to one thread. Destroying the group cancels
/// what still runs and waits for nothing.
class TaskGroup {
 public:
  TaskGroup(net::any_io_executor executor, std::string name);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Starts `task`. In a stopped group it is dropped without running.
  /// Cancellation is of the total kind first: an operation that would lose its work may ignore it.
  void spawn(std::string what, net::awaitable<void> task);

  /// Asks every task to end (total cancellation), waits up to `grace`, insists (terminal), and waits for the last one.
  net::awaitable<void> stop(Clock& clock, Clock::duration grace = std::chrono::seconds(5));

  /// Waits until no task is left.
  net::awaitable<void> join();

  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weir::runtime
