#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir::collectives {

/// Memory for the frames of tasks. A frame that is given back is kept for the next one of its size on the same thread,
/// so a collective that is repeated takes nothing from the heap.
void* take_task_frame(std::size_t bytes);
void give_task_frame(void* frame, std::size_t bytes) noexcept;

/// A coroutine of the data plane; it ends with a Result<T>. It runs on the thread of its Loop. It does nothing until it
/// is started or awaited, and is awaited at most once. Two tasks go on side by side when both are started before the
/// first is awaited. Destroying a task that waits for something withdraws what it waits for (Send, Receive).
template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<Result<T>> result;
    std::coroutine_handle<> caller = std::noop_coroutine();

    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept { return ReturnToCaller(); }
    void return_value(Result<T> value) { result.emplace(std::move(value)); }
    void unhandled_exception() {
      try {
        throw;
      } catch (const std::exception& thrown) {
        result.emplace(Error{Errc::internal, thrown.what()});
      }
    }

    static void* operator new(std::size_t bytes) { return take_task_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) noexcept { give_task_frame(frame, bytes); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), started_(other.started_) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// Runs it up to the first thing that it has to wait for.
  void start() {
    started_ = true;
    handle_.resume();
  }
  bool done() const { return handle_.done(); }
  /// Of a task that is done; once.
  Result<T> take_result() { return std::move(*handle_.promise().result); }

  bool await_ready() {
    if (!started_) start();
    return handle_.done();
  }
  void await_suspend(std::coroutine_handle<> caller) noexcept { handle_.promise().caller = caller; }
  Result<T> await_resume() { return take_result(); }

 private:
  using Handle = std::coroutine_handle<promise_type>;

  struct ReturnToCaller {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle ended) noexcept { return ended.promise().caller; }
    void await_resume() noexcept {}
  };

  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
  bool started_ = false;
};

}  // namespace weir::collectives
