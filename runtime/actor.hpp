#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/actor_ref.hpp"
#include "runtime/task_group.hpp"

namespace weir::runtime {

/// The base class of every actor: its strand, address, system and tasks. ActorSystem::spawn sets them after the
/// constructor has run, so a constructor needs no parameters for them and must not use them.
class ActorBase {
 public:
  ActorBase() = default;
  virtual ~ActorBase() = default;
  ActorBase(const ActorBase&) = delete;
  ActorBase& operator=(const ActorBase&) = delete;

  /// Called once, on the strand, before the first message.
  virtual void on_start() {}

  /// Called once, on the strand, after the last message and after the actor's tasks have ended.
  virtual net::awaitable<void> on_stop() { co_return; }

 protected:
  ActorSystem& system() const { return *system_; }
  Clock& clock() const { return *clock_; }
  const Address& address() const { return address_; }
  const std::string& name() const { return name_; }

  /// The strand that all of this actor's code runs on.
  const net::any_io_executor& executor() const { return executor_; }

  /// Background work of this actor, on its strand; cancelled when the actor stops. Available from on_start() on.
  TaskGroup& tasks() { return *tasks_; }

  const std::shared_ptr<Router>& router() const { return router_; }

  /// The sender of the message being handled; null if it came from this process. Valid only at the beginning of a
  /// method, before it first suspends: after that, other messages may have started.
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
/// Messages start in the order in which they arrived. While a method is suspended at a co_await, later messages may
/// start, so state can change across a co_await. With SpawnOptions::serial the actor finishes each message before it
/// starts the next.
template <class... Interfaces>
class Actor : public ActorBase, public Interfaces... {
 public:
  /// A reference to this actor, to be sent in messages. Must not be called in the constructor.
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
