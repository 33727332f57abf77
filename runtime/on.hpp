#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <exception>
#include <utility>

#include "runtime/asio.hpp"

namespace weir::runtime {
namespace detail {

/// Starts a task on another executor and completes on the executor of the waiting coroutine.
class StartOn {
 public:
  explicit StartOn(net::any_io_executor executor) : executor_(std::move(executor)) {}

  template <class Handler, class T>
  void operator()(Handler handler, net::awaitable<T> task) const {
    // co_spawn gets a lambda, which has no cancellation slot, instead of the waiting coroutine's handler: see on().
    net::co_spawn(executor_, std::move(task),
                  [handler = std::move(handler)](const std::exception_ptr& thrown, T value) mutable {
                    const auto executor = net::get_associated_executor(handler);
                    net::dispatch(executor, [handler = std::move(handler), thrown, value = std::move(value)]() mutable {
                      std::move(handler)(thrown, std::move(value));
                    });
                  });
  }

  template <class Handler>
  void operator()(Handler handler, net::awaitable<void> task) const {
    net::co_spawn(executor_, std::move(task), [handler = std::move(handler)](const std::exception_ptr& thrown) mutable {
      const auto executor = net::get_associated_executor(handler);
      net::dispatch(executor, [handler = std::move(handler), thrown]() mutable { std::move(handler)(thrown); });
    });
  }

 private:
  net::any_io_executor executor_;
};

}  // namespace detail

/// Runs `task` on another executor and returns its result, or throws its exception, on the caller's executor.
/// Cancelling the caller does not cancel the task: the caller waits until it has finished. (co_spawn(executor, task,
/// use_awaitable) of Boost 1.81 would pass the cancellation on through a bare pointer, which dangles if the task ends
/// on its executor while the caller is cancelled on another.)
template <class T>
net::awaitable<T> on(net::any_io_executor executor, net::awaitable<T> task) {
  detail::StartOn start(std::move(executor));
  co_return co_await net::async_initiate<const net::use_awaitable_t<>&, void(std::exception_ptr, T)>(
      std::move(start), net::use_awaitable, std::move(task));
}

inline net::awaitable<void> on(net::any_io_executor executor, net::awaitable<void> task) {
  detail::StartOn start(std::move(executor));
  co_await net::async_initiate<const net::use_awaitable_t<>&, void(std::exception_ptr)>(
      std::move(start), net::use_awaitable, std::move(task));
}

}  // namespace weir::runtime
