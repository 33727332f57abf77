#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

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

template <class Work>
struct PostWork {
  net::any_io_executor executor;
  Work work;

  template <class Complete>
  void operator()(Complete complete) {
    net::post(executor, [work = std::move(work), complete = std::move(complete)]() mutable { complete(work()); });
  }
};

}  // namespace detail

/// Calls `start` with a completion function and suspends until that has been called, exactly once and from any thread.
/// Returns the value that it was called with.
template <class T, class Start>
net::awaitable<T> await_completion(Start start) {
  detail::StartWithCompletion<T> initiation;
  co_return co_await net::async_initiate<decltype(net::use_awaitable), void(T)>(initiation, net::use_awaitable,
                                                                                std::move(start));
}

/// Runs `work` on `executor` and returns its result on the caller's, to keep blocking work off the strands.
template <class Work>
net::awaitable<std::invoke_result_t<Work&>> run_on(net::any_io_executor executor, Work work) {
  detail::PostWork<Work> start{std::move(executor), std::move(work)};
  return await_completion<std::invoke_result_t<Work&>>(std::move(start));
}

}  // namespace weir::cluster
