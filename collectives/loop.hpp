#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <coroutine>
#include <cstddef>
#include <mutex>
#include <optional>

#include "base/result.hpp"

namespace weir::collectives {

/// Something that one coroutine of a Loop waits for, by `co_await`, and that ends with a Result<void>.
class Waiting : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// For the transport: whether Loop::end was called.
  bool ended() const { return result_.has_value(); }

  // What `co_await` calls.
  auto operator co_await() noexcept {
    struct Awaiter {
      bool await_ready() const noexcept { return waiting.ended(); }
      void await_suspend(std::coroutine_handle<> waiter) noexcept { waiting.waiter_ = waiter; }
      Result<void> await_resume() { return *waiting.result_; }
      Waiting& waiting;
    };
    return Awaiter{*this};
  }

 protected:
  Waiting() = default;
  ~Waiting() = default;

 private:
  friend class Loop;
  std::optional<Result<void>> result_;
  std::coroutine_handle<> waiter_;
};

/// Things that wait, in order. Each is in one list at most and leaves it when it is destroyed.
template <class T>
using WaitingList = boost::intrusive::list<T, boost::intrusive::constant_time_size<false>>;

/// Runs the coroutines of the data plane, all on one thread: those that can go on, then what its transport brings.
/// Everything but post() and stop() is called on that thread only.
class Loop {
 public:
  /// Work for the loop's thread that another thread asks for. It stays where it is until it has run.
  class Request : public boost::intrusive::list_base_hook<> {
   public:
    virtual void run() = 0;

   protected:
    ~Request() = default;
  };

  /// As long as one exists, another thread works on what a coroutine of the loop waits for, and will post() it: the
  /// clock of a simulated network stands still. It is made and destroyed on the loop's thread.
  class Hold {
   public:
    explicit Hold(Loop& loop) : loop_(loop) { ++loop_.holds_; }
    ~Hold() { --loop_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Loop& loop_;
  };

  virtual ~Loop() = default;

  /// Has `request` run on the loop's thread. From any thread.
  void post(Request& request);

  /// Runs until stop(), which counts also if it came before.
  void run();
  /// Makes run() return soon. From any thread.
  void stop();

  /// Runs until nothing can go on without something from outside.
  void run_while_busy();
  /// One round of run_while_busy(): at most one event of a simulated network, and what goes on because of it. Returns
  /// false if there was nothing to do.
  bool run_once();

  /// Ends `waiting` with `result`: its coroutine goes on after the present one.
  void end(Waiting& waiting, const Result<void>& result);

 protected:
  /// Takes what the transport has, waiting for it if `may_wait`. Returns false if there was nothing.
  virtual bool advance(bool may_wait) = 0;
  /// Makes a waiting advance() return. From any thread.
  virtual void wake() = 0;
  bool held() const { return holds_ > 0; }

 private:
  bool run_ready();
  bool run_requests();

  WaitingList<Waiting> ready_;
  std::size_t holds_ = 0;

  std::mutex mutex_;
  boost::intrusive::list<Request> requests_;
  std::atomic<bool> requested_ = false;  ///< requests_ may have some: a round without any takes no lock
  std::atomic<bool> stopping_ = false;
};

}  // namespace weir::collectives
