#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/actor_system.hpp"

namespace weir::runtime {

/// An actor with its bounded mailbox. Owned by the SystemCore and by its own unfinished work. stop() runs on the
/// actor's strand; accept() and the const members may be called from any thread.
///
/// Turns are run by pumps: coroutines that take one message after another. As long as methods do not suspend, one pump
/// does all the work, without a new coroutine per message; while a method is suspended, its pump is busy and another
/// pump takes the next message. A serial actor has one pump.
class ActorCell : public std::enable_shared_from_this<ActorCell> {
 public:
  struct Parts {
    std::uint64_t id = 0;
    std::unique_ptr<ActorBase> object;
    std::string type;
    std::vector<InterfaceEntry> interfaces;
    SpawnOptions options;
  };

  ActorCell(ActorSystem& system, Clock& clock, const std::shared_ptr<Router>& router, net::any_io_executor executor,
            Parts parts);
  ~ActorCell();

  /// Posts on_start() as the first work on the strand. Must be called once.
  void start();

  /// Puts a turn into the mailbox. On failure it stays with the caller. Fails with: mailbox_full, not_found (stopped).
  Result<void> accept(std::unique_ptr<Turn>& turn);

  /// The object behind an interface; null if the actor does not implement it.
  void* find_interface(std::uint64_t interface) const;

  struct Found {
    void* object = nullptr;
    const MethodEntry* method = nullptr;
  };
  /// The method with that number (method_id()) and the object to call it on; `method` is null if there is none.
  Found find_method(std::uint64_t method) const;

  /// Refuses waiting messages, cancels running ones and the actor's tasks, waits for them, and runs on_stop(). Later
  /// calls return at once.
  net::awaitable<void> stop();

  ActorInfo info() const;
  std::uint64_t id() const { return parts_.id; }
  const std::string& name() const { return parts_.options.name; }
  const net::any_io_executor& executor() const { return executor_; }

 private:
  class IdlePump;
  template <class Handler>
  class IdlePumpOf;
  struct Park;

  static net::awaitable<void> pump(std::shared_ptr<ActorCell> self);
  std::unique_ptr<Turn> next_turn();
  void guard(const std::function<void()>& work) const;
  void schedule();
  void drain();
  bool drain_some();

  Parts parts_;
  Clock& clock_;
  net::any_io_executor executor_;
  ActorBase& object_;

  mutable std::mutex mutex_;  // guards the mailbox
  std::deque<std::unique_ptr<Turn>> waiting_;
  bool scheduled_ = false;
  bool closed_ = false;

  std::atomic<std::size_t> depth_ = 0;
  std::atomic<std::uint64_t> handled_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;

  std::unique_ptr<TaskGroup> turns_;
  std::vector<std::unique_ptr<IdlePump>> idle_;
  int pumps_ = 0;
  bool starting_ = false;  ///< a pump has been spawned and has not started yet
  bool draining_ = false;
  int budget_ = 0;  ///< turns left before the cell lets other work of this thread run
};

}  // namespace weir::runtime
