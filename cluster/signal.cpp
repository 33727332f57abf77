#include "cluster/signal.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <functional>
#include <utility>

namespace weir::cluster {

struct Signal::Waiter {
  std::function<void(bool)> done;

  void wake(bool notified) {
    if (auto waiting = std::exchange(done, nullptr)) waiting(notified);
  }
};

/// The Asio initiation of a wait: stores the coroutine in `waiter`.
struct Signal::Start {
  std::shared_ptr<Waiter> waiter;

  template <class Handler>
  void operator()(Handler handler) {
    auto slot = net::get_associated_cancellation_slot(handler);
    auto waiting = std::make_shared<Handler>(std::move(handler));
    waiter->done = [waiting](bool notified) {
      auto executor = net::get_associated_executor(*waiting);
      net::post(executor, [waiting, notified] { (*waiting)(notified); });
    };
    if (slot.is_connected()) {
      slot.assign([weak = std::weak_ptr(waiter)](net::cancellation_type) {
        if (const auto found = weak.lock()) found->wake(false);
      });
    }
  }
};

net::awaitable<bool> Signal::wait_until(runtime::Clock& clock, runtime::Clock::time_point when) {
  if (std::exchange(pending_, false)) co_return true;
  const auto executor = co_await net::this_coro::executor;
  auto waiter = std::make_shared<Waiter>();
  waiters_.push_back(waiter);
  const auto alarm = clock.set_timer(executor, when, [waiter] { waiter->wake(false); });
  Start start{waiter};
  const bool notified =
      co_await net::async_initiate<decltype(net::use_awaitable), void(bool)>(start, net::use_awaitable);
  std::erase(waiters_, waiter);
  co_return notified;
}

void Signal::notify() {
  if (waiters_.empty()) pending_ = true;
  for (const auto& waiter : std::exchange(waiters_, {})) waiter->wake(true);
}

}  // namespace weir::cluster
