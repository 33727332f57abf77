#include "runtime/clock.hpp"

#include <atomic>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace weir::runtime {
namespace {

/// A sleeping coroutine: whichever comes first, alarm or cancellation, takes the handler.
template <class Handler>
struct Sleeper {
  explicit Sleeper(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
  std::unique_ptr<Timer> timer;
  bool done = false;

  void wake(bool slept) {
    if (done) return;
    done = true;
    timer.reset();
    auto executor = net::get_associated_executor(handler);
    net::post(executor, [h = std::move(handler), slept]() mutable { std::move(h)(slept); });
  }
};

struct StartSleep {
  Clock& clock;
  net::any_io_executor executor;
  Clock::time_point when;

  template <class Handler>
  void operator()(Handler handler) {
    using State = Sleeper<Handler>;
    auto slot = net::get_associated_cancellation_slot(handler);
    auto state = std::make_shared<State>(std::move(handler));
    state->timer = clock.set_timer(executor, when, [state] { state->wake(true); });
    if (slot.is_connected()) {
      slot.assign([weak = std::weak_ptr(state)](net::cancellation_type) {
        if (auto alive = weak.lock()) alive->wake(false);
      });
    }
  }
};

class SystemTimer final : public Timer {
 public:
  SystemTimer(const net::any_io_executor& executor, Clock::time_point when, std::function<void()> callback)
      : timer_(executor, when), alive_(std::make_shared<std::atomic<bool>>(true)) {
    timer_.async_wait([alive = alive_, run = std::move(callback)](boost::system::error_code failed) {
      if (!failed && *alive) run();
    });
  }
  ~SystemTimer() override { *alive_ = false; }

 private:
  net::steady_timer timer_;
  std::shared_ptr<std::atomic<bool>> alive_;  // an alarm already queued must not run after the reset
};

}  // namespace

net::awaitable<bool> Clock::sleep_until(time_point when) {
  auto executor = co_await net::this_coro::executor;  // on its own: g++ 12 destroys it twice inside the braces below
  StartSleep start{*this, std::move(executor), when};
  co_return co_await net::async_initiate<const net::deferred_t&, void(bool)>(std::move(start), net::deferred);
}

net::awaitable<bool> Clock::sleep_for(duration time) { return sleep_until(now() + time); }

Clock::time_point SystemClock::now() const { return std::chrono::steady_clock::now(); }

std::chrono::system_clock::time_point SystemClock::wall() const { return std::chrono::system_clock::now(); }

std::unique_ptr<Timer> SystemClock::set_timer(net::any_io_executor executor, time_point when,
                                              std::function<void()> callback) {
  return std::make_unique<SystemTimer>(std::move(executor), when, std::move(callback));
}

}  // namespace weir::runtime
