#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/asio.hpp"
#include "runtime/clock.hpp"

namespace weir::runtime {

/// The only way to start a coroutine that nobody awaits: it has a name, its exceptions are logged, it can be cancelled,
/// and its end can be awaited.
/// All members must be called on the group's executor, which is a strand or belongs to one thread. Destroying the group
/// cancels the tasks that still run and does not wait for them.
class TaskGroup {
 public:
  TaskGroup(net::any_io_executor executor, std::string name);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Starts `task`. In a stopped group it is dropped without running.
  /// stop() cancels with Asio's total kind first, which an operation that would lose its work may ignore.
  void spawn(std::string what, net::awaitable<void> task);

  /// Cancels every task (total cancellation), after `grace` cancels the remaining ones again (terminal), and waits for
  /// the last one.
  net::awaitable<void> stop(Clock& clock, Clock::duration grace = std::chrono::seconds(5));

  /// Waits until no task is left.
  net::awaitable<void> join();

  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weir::runtime
