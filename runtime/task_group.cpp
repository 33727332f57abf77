#include "runtime/task_group.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <list>

#include "runtime/event.hpp"

namespace weir::runtime {

struct TaskGroup::State {
  struct Task {
    std::string what;
    net::cancellation_signal signal;
  };

  State(net::any_io_executor ex, std::string n) : executor(std::move(ex)), name(std::move(n)) {}

  void emit(net::cancellation_type type) {
    // emit() may end the task and remove it from the list; iterators to the others stay valid.
    for (auto task = tasks.begin(); task != tasks.end();) (task++)->signal.emit(type);
  }

  void ended(std::list<Task>::iterator task, const std::exception_ptr& thrown) {
    report(task->what, thrown);
    tasks.erase(task);
    if (!tasks.empty()) return;
    Event all_gone = std::exchange(empty, {});
    all_gone.set();
  }

  /// Logs what a task has thrown, unless it is a cancelled operation.
  void report(const std::string& what, const std::exception_ptr& thrown) const {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const boost::system::system_error& e) {
      if (e.code() != net::error::operation_aborted) spdlog::error("{}: {}: {}", name, what, e.what());
    } catch (const std::exception& e) {
      spdlog::error("{}: {}: {}", name, what, e.what());
    } catch (...) {
      spdlog::error("{}: {}: threw something that is no std::exception", name, what);
    }
  }

  net::any_io_executor executor;
  std::string name;
  std::list<Task> tasks;
  Event empty;  ///< set, and replaced, each time the last task ends
  bool stopped = false;
};

namespace {

/// Passes total cancellation on to the task's operations; co_spawn alone passes on only terminal cancellation.
net::awaitable<void> cancellable(net::awaitable<void> task) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  co_await std::move(task);
}

}  // namespace

TaskGroup::TaskGroup(net::any_io_executor executor, std::string name)
    : state_(std::make_shared<State>(std::move(executor), std::move(name))) {}

TaskGroup::~TaskGroup() {
  state_->stopped = true;
  state_->emit(net::cancellation_type::terminal);
}

void TaskGroup::spawn(std::string what, net::awaitable<void> task) {
  if (state_->stopped) return;
  state_->tasks.emplace_back().what = std::move(what);
  auto entry = std::prev(state_->tasks.end());
  net::co_spawn(
      state_->executor, cancellable(std::move(task)),
      net::bind_cancellation_slot(entry->signal.slot(), [state = state_, entry](const std::exception_ptr& thrown) {
        state->ended(entry, thrown);
      }));
}

net::awaitable<void> TaskGroup::join() {
  auto state = state_;  // the group itself may go away meanwhile
  while (!state->tasks.empty()) {
    Event empty = state->empty;
    const bool waited = co_await empty.wait();
    if (!waited) co_return;
  }
}

net::awaitable<void> TaskGroup::stop(Clock& clock, Clock::duration grace) {
  auto state = state_;
  state->stopped = true;
  if (state->tasks.empty()) co_return;
  state->emit(net::cancellation_type::total);
  if (state->tasks.empty()) co_return;
  Event empty = state->empty;
  auto insist = clock.set_timer(state->executor, clock.now() + grace, [weak = std::weak_ptr(state)] {
    if (auto alive = weak.lock()) {
      for (const auto& task : alive->tasks) spdlog::warn("{}: {} does not end; insisting", alive->name, task.what);
      alive->emit(net::cancellation_type::terminal);
    }
  });
  co_await empty.wait();
}

std::size_t TaskGroup::size() const { return state_->tasks.size(); }

}  // namespace weir::runtime
