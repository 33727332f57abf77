#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/actor_ref.hpp"
#include "runtime/task_group.hpp"

namespace weir::runtime {

/// What every actor has: its strand, its address, its system, its own tasks. Filled in by ActorSystem::spawn after the
/// constructor, so that a constructor only takes what the actor is made of.
class ActorBase {
 public:
  ActorBase() = default;
  virtual ~ActorBase() = default;
  ActorBase(const ActorBase&) = delete;
  ActorBase& operator=(const ActorBase&) = delete;

  /// First thing on the strand, before any message.
  virtual void on_start() {}

  /// Last thing on the strand, after the tasks have ended; no message comes any more.
  virtual net::awaitable<void> on_stop() { co_return; }

 protected:
  ActorSystem& system() const { return *system_; }
  Clock& clock() const { return *clock_; }
  const Address& address() const { return address_; }
  const std::string& name() const { return name_; }

  /// The strand that all of this actor's code runs on.
  const net::any_io_executor& executor() const { return executor_; }

  /// Background work of this actor, on its strand; cancelled when the actor stops. From on_start() on.
  TaskGroup& tasks() { return *tasks_; }

  const std::shared_ptr<Router>& router() const { return router_; }

  /// Who has sent the message that is being handled; null if it came from this process. To be asked at the beginning of
  /// a method, before it first suspends: after that, other messages may have been begun.
  const Caller* caller() const { return caller_; }

 private:
  friend class ActorCell;
  const Caller* caller_ = nullptr;
  ActorSystem* system_ = nullptr;
  Clock* clock_ = nullptr;
  std::shared_ptr<Router> router_;
  Address address_;
  std::string name_;
  net::any_io_executor executor_;
  std::unique_ptr<TaskGroup> tasks_;
};

/// The base class of an actor that implements the given interfaces:
///
///     class Counter final : public runtime::Actor<CounterInterface> {
///       net::awaitable<Result<int>> add(int amount) override { co_return sum_ += amount; }
///
/// Messages start in the order they came. While a method is suspended at a co_await, later messages may start: state
/// can change across a co_await. SpawnOptions::serial makes the actor finish each message first.
template <class... Interfaces>
class Actor : public ActorBase, public Interfaces... {
 public:
  /// A reference to this actor, to be sent in messages. Not in the constructor.
  template <class Interface>
  ActorRef<Interface> self() const {
    static_assert((std::same_as<Interface, Interfaces> || ...), "the actor does not implement this interface");
    return {router(), address()};
  }

 private:
  friend class ActorSystem;
  template <class Visitor>
  void each_interface(Visitor visit) {
    (visit(static_cast<Interfaces*>(this)), ...);
  }
};

}  // namespace weir::runtime
