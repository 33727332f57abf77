#include "runtime/event.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace weir::runtime {
namespace {

class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void resume(bool set) = 0;
};

template <class Handler>
class WaiterOf final : public Waiter {
 public:
  explicit WaiterOf(Handler&& handler) : handler_(std::move(handler)) {}
  void resume(bool set) override {
    auto executor = net::get_associated_executor(handler_);
    net::post(executor, [handler = std::move(handler_), set]() mutable { std::move(handler)(set); });
  }

 private:
  Handler handler_;
};

}  // namespace

struct Event::State {
  std::mutex mutex;
  bool set = false;
  std::uint64_t next = 0;
  std::map<std::uint64_t, std::unique_ptr<Waiter>> waiters;

  void cancel(std::uint64_t id) {
    std::unique_ptr<Waiter> waiter;
    {
      std::scoped_lock lock(mutex);
      auto node = waiters.extract(id);
      if (node) waiter = std::move(node.mapped());
    }
    if (waiter) waiter->resume(false);
  }

  /// The initiation of one wait.
  struct Start {
    std::shared_ptr<State> state;

    template <class Handler>
    void operator()(Handler handler) {
      auto slot = net::get_associated_cancellation_slot(handler);
      auto waiter = std::make_unique<WaiterOf<Handler>>(std::move(handler));
      std::unique_lock lock(state->mutex);
      if (state->set) {
        lock.unlock();
        return waiter->resume(true);
      }
      const std::uint64_t id = state->next++;
      // Before the waiter can be resumed: afterwards the slot belongs to the coroutine again.
      if (slot.is_connected()) {
        slot.assign([weak = std::weak_ptr(state), id](net::cancellation_type) {
          if (auto alive = weak.lock()) alive->cancel(id);
        });
      }
      state->waiters.emplace(id, std::move(waiter));
    }
  };
};

Event::Event() : state_(std::make_shared<State>()) {}

void Event::set() const {
  std::map<std::uint64_t, std::unique_ptr<Waiter>> waiters;
  {
    std::scoped_lock lock(state_->mutex);
    state_->set = true;
    waiters.swap(state_->waiters);
  }
  for (auto& [id, waiter] : waiters) waiter->resume(true);
}

bool Event::is_set() const {
  std::scoped_lock lock(state_->mutex);
  return state_->set;
}

net::awaitable<bool> Event::wait() const {
  State::Start start{state_};  // named: g++ 12 destroys an aggregate that is built inside a co_await expression twice
  co_return co_await net::async_initiate<const net::deferred_t&, void(bool)>(std::move(start), net::deferred);
}

}  // namespace weir::runtime
