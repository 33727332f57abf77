#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir::cluster {

namespace net = boost::asio;

namespace detail {

/// Starts an operation that takes a completion function, and resumes the coroutine on its own executor.
template <class T>
struct StartWithCompletion {
  template <class Handler, class Start>
  void operator()(Handler handler, Start start) const {
    auto waiting = std::make_shared<Handler>(std::move(handler));
    start([waiting](T result) {
      auto executor = net::get_associated_executor(*waiting);
      net::post(executor, [waiting, result = std::move(result)]() mutable { (*waiting)(std::move(result)); });
    });
  }
};

/// What work has returned or thrown.
template <class T>
struct Outcome {
  std::optional<T> value;
  std::exception_ptr thrown;
};

/// No exception leaves the executor's thread: a pool would end the process.
template <class Work>
struct PostWork {
  net::any_io_executor executor;
  Work work;

  template <class Complete>
  void operator()(Complete complete) {
    net::post(executor, [work = std::move(work), complete = std::move(complete)]() mutable {
      Outcome<std::invoke_result_t<Work&>> outcome;
      try {
        outcome.value.emplace(work());
      } catch (...) {
        outcome.thrown = std::current_exception();
      }
      complete(std::move(outcome));
    });
  }
};

inline Error error_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return {Errc::exhausted, "not enough memory"};
  } catch (const std::exception& e) {
    return {Errc::internal, e.what()};
  } catch (...) {
    return {Errc::internal, "something that is no exception was thrown"};
  }
}

template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;

}  // namespace detail

/// Calls `start` with a completion function and suspends until that has been called, exactly once and from any thread.
/// Returns the value that it was called with.
template <class T, class Start>
net::awaitable<T> await_completion(Start start) {
  detail::StartWithCompletion<T> initiation;
  co_return co_await net::async_initiate<decltype(net::use_awaitable), void(T)>(initiation, net::use_awaitable,
                                                                                std::move(start));
}

/// Runs `work` on `executor` and returns its result on the caller's, to keep blocking work off the strands. What it
/// throws becomes the error of a Result, exhausted (memory) or internal; of work with another result it is thrown in
/// the caller.
template <class Work>
net::awaitable<std::invoke_result_t<Work&>> run_on(net::any_io_executor executor, Work work) {
  using T = std::invoke_result_t<Work&>;
  detail::PostWork<Work> start{std::move(executor), std::move(work)};
  auto outcome = co_await await_completion<detail::Outcome<T>>(std::move(start));
  if (outcome.value) co_return std::move(*outcome.value);
  if constexpr (detail::is_result<T>) {
    co_return detail::error_of(outcome.thrown);
  } else {
    std::rethrow_exception(outcome.thrown);
  }
}

}  // namespace weir::cluster
