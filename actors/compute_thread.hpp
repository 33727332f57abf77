#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.hpp"
#include "runtime/asio.hpp"
#include "training/thrown.hpp"

namespace weir::actors {

/// A thread for work that blocks or computes, which must not happen on an actor's strand. Owned by the actor; its
/// destructor waits for the work in progress.
class ComputeThread {
 public:
  /// Runs `work`, a function that returns a Result, on the thread, and returns that result on the executor of the
  /// awaiting coroutine. Work items run one after another. Cancelling the wait calls `on_cancel` (on the thread from
  /// which the cancellation comes), which should make the work end soon; its result is awaited all the same. Fails with
  /// what `work` fails with and, if it throws, with what training::error_of() makes of that.
  template <class Work>
  net::awaitable<std::invoke_result_t<Work&>> run(Work work, std::function<void()> on_cancel = {}) {
    using Value = std::invoke_result_t<Work&>;
    co_return co_await net::async_initiate<const net::deferred_t&, void(Value)>(Start<Work>{pool_, work, on_cancel},
                                                                                net::deferred);
  }

 private:
  /// Starts the work when it is awaited. Is part of the coroutine frame of run().
  template <class Work>
  struct Start {
    net::thread_pool& pool;
    Work& work;
    std::function<void()>& on_cancel;

    template <class Handler>
    void operator()(Handler handler) {
      if (auto slot = net::get_associated_cancellation_slot(handler); slot.is_connected() && on_cancel) {
        slot.assign([cancel = std::move(on_cancel)](net::cancellation_type) { cancel(); });
      }
      auto back = net::make_work_guard(net::get_associated_executor(handler));
      net::post(pool, [work = std::move(work), back = std::move(back), handler = std::move(handler)]() mutable {
        auto result = guarded(work);
        net::dispatch(back.get_executor(), [handler = std::move(handler), result = std::move(result)]() mutable {
          std::move(handler)(std::move(result));
        });
      });
    }
  };

  template <class Work>
  static std::invoke_result_t<Work&> guarded(Work& work) {
    try {
      return work();
    } catch (const std::exception& thrown) {
      return training::error_of(thrown);
    }
  }

  net::thread_pool pool_{1};
};

}  // namespace weir::actors
