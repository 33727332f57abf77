#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/call.hpp"
#include "runtime/methods.hpp"

namespace weir::runtime {

/// The time limit of calls whose reference was not made by ActorRef::within().
inline constexpr std::chrono::seconds default_deadline{30};

namespace detail {

template <auto M>
using ValueOf = typename MethodTraits<decltype(M)>::Value;
template <auto M>
using ArgumentsOf = typename MethodTraits<decltype(M)>::Arguments;
template <auto M>
using InterfaceOf = typename MethodTraits<decltype(M)>::Interface;

template <auto M>
MethodKey method_key() {
  using T = InterfaceOf<M>;
  return {interface_id<T>, method_id<M>(), T::type_name};
}

/// Converts the exception that an actor's method has thrown, and that is being handled, to the error its caller gets.
/// Logs it, unless it is an aborted operation, which becomes Errc::cancelled.
Error error_of_current_exception(std::string_view actor_type);

template <class R>
class ResultAnswer final : public Answer {
 public:
  explicit ResultAnswer(Result<R>& result) : result_(result) {}
  void write(Writer& out) const override { Codec<Result<R>>::write(out, result_); }
  void* value() override { return &result_; }

 private:
  Result<R>& result_;
};

template <auto M>
class MethodTurn final : public Turn {
 public:
  using R = ValueOf<M>;
  using T = InterfaceOf<M>;
  MethodTurn(T* actor, ArgumentsOf<M>&& arguments, Reply reply)
      : actor_(actor), arguments_(std::move(arguments)), reply_(std::move(reply)) {}

  net::awaitable<void> run() override {
    Result<R> result = Error{Errc::internal};
    try {
      if constexpr (MethodTraits<decltype(M)>::suspends) {
        result = co_await invoke();
      } else {
        result = invoke();
      }
    } catch (...) {
      result = error_of_current_exception(T::type_name);
    }
    respond(result);
  }

  void refuse(Error error) override {
    Result<R> result = std::move(error);
    respond(result);
  }

 private:
  auto invoke() {
    return std::apply([this](auto&&... argument) { return (actor_->*M)(std::move(argument)...); },
                      std::move(arguments_));
  }
  void respond(Result<R>& result) {
    if (!reply_.port) return;
    ResultAnswer<R> answer(result);
    reply_.port->answer(reply_.call, answer);
  }

  T* actor_;
  ArgumentsOf<M> arguments_;
  Reply reply_;
};

/// Reads the arguments of M and makes the turn. Fails with: malformed.
template <auto M>
Result<std::unique_ptr<Turn>> parse_turn(void* actor, Reader& in, Reply reply) {
  ArgumentsOf<M> arguments;
  Codec<ArgumentsOf<M>>::read(in, arguments);
  if (auto done = in.finish(); !done) return done.error();
  return std::make_unique<MethodTurn<M>>(static_cast<InterfaceOf<M>*>(actor), std::move(arguments), std::move(reply));
}

template <auto M>
class MethodMessage final : public Message {
 public:
  explicit MethodMessage(ArgumentsOf<M>& arguments) : arguments_(arguments) {}
  void write(Writer& out) const override { Codec<ArgumentsOf<M>>::write(out, arguments_); }
  std::unique_ptr<Turn> turn(void* actor, Reply reply) override {
    return std::make_unique<MethodTurn<M>>(static_cast<InterfaceOf<M>*>(actor), std::move(arguments_),
                                           std::move(reply));
  }

 private:
  ArgumentsOf<M>& arguments_;
};

template <class R, class Handler>
class WaitingCaller final : public PendingReply {
 public:
  explicit WaitingCaller(Handler&& handler) : handler_(std::move(handler)) {}

  void accept(Reader& in) override {
    Result<R> result = Error{Errc::malformed};
    Codec<Result<R>>::read(in, result);
    if (auto done = in.finish(); !done) result = done.error().within("answer");
    resume(std::move(result));
  }
  void accept_local(void* result) override { resume(std::move(*static_cast<Result<R>*>(result))); }
  void fail(Error error) override { resume(std::move(error)); }

  /// fail() for errors during the initiation, where the handler must not run at once.
  void fail_later(Error error) {
    auto executor = net::get_associated_executor(handler_);
    net::post(executor, [handler = std::move(handler_), result = Result<R>(std::move(error))]() mutable {
      std::move(handler)(std::move(result));
    });
  }

 private:
  void resume(Result<R> result) {
    auto executor = net::get_associated_executor(handler_);
    net::dispatch(executor, [handler = std::move(handler_), result = std::move(result)]() mutable {
      std::move(handler)(std::move(result));
    });
  }

  Handler handler_;
};

/// Starts the call when it is awaited. Lives in the coroutine frame of call() below.
template <auto M>
struct StartCall {
  const std::shared_ptr<Router>& router;
  Address to;
  Clock::duration limit;
  ArgumentsOf<M>& arguments;

  template <class Handler>
  void operator()(Handler handler) {
    using Waiting = WaitingCaller<ValueOf<M>, Handler>;
    auto slot = net::get_associated_cancellation_slot(handler);
    std::unique_ptr<PendingReply> waiting = std::make_unique<Waiting>(std::move(handler));
    MethodMessage<M> message(arguments);
    auto key = router->call(to, method_key<M>(), limit, message, waiting);
    if (!key) {
      static_cast<Waiting&>(*waiting).fail_later(std::move(key).error());
    } else if (slot.is_connected()) {
      slot.assign([key = std::move(*key)](net::cancellation_type) { key.cancel(); });
    }
  }
};

template <auto M>
net::awaitable<Result<ValueOf<M>>> call(std::shared_ptr<Router> router, Address to, Clock::duration limit,
                                        ArgumentsOf<M> arguments) {
  if (!router) co_return Error{Errc::not_found, "call on an empty ActorRef"};
  StartCall<M> start{router, to, limit, arguments};
  co_return co_await net::async_initiate<const net::deferred_t&, void(Result<ValueOf<M>>)>(start, net::deferred);
}

/// True for T itself and for actors that implement T.
template <class Actor, class T>
concept Implements = std::same_as<Actor, T> || std::derived_from<Actor, T>;

}  // namespace detail

/// A reference to an actor with interface T, in this process or another. It is a value that can be copied and sent in
/// messages, and it does not keep the actor alive. A process that receives it in a message reaches the actor over the
/// link that brought the message.
///
///     Result<int> sum = co_await counter.call<&Counter::add>(5);                    // 30 s deadline
///     Result<int> sum = co_await counter.within(100ms).call<&Counter::add>(5);
///     Result<void> sent = counter.tell<&Counter::add>(5);                           // no answer
///
/// With g++ 12, build no argument with braces inside the co_await expression: it would be destroyed twice.
///
/// Messages from one sender to one actor arrive in the order sent. A call is sent when it is awaited, and completes on
/// the executor of the awaiting coroutine, which must be a strand or belong to one thread.
/// A call fails with: deadline_exceeded, peer_lost (at once, when the link breaks), mailbox_full, not_found (no such
/// actor or method), cancelled, malformed (arguments that the other side cannot read), internal (the method threw), and
/// the errors that the method itself returns. A message is delivered at most once.
template <class T>
class ActorRef {
 public:
  ActorRef() = default;
  ActorRef(std::shared_ptr<Router> router, Address address) : router_(std::move(router)), address_(address) {}

  /// Converts from an actor type to an interface that it implements.
  template <class Derived>
    requires(std::derived_from<Derived, T> && !std::same_as<Derived, T>)
  ActorRef(const ActorRef<Derived>& other)  // NOLINT: implicit like a pointer to a base class
      : router_(other.router()), address_(other.address()) {}

  template <class Interface>
    requires detail::Implements<T, Interface>
  ActorRef<Interface> as() const {
    return {router_, address_};
  }

  /// A copy of this reference that gives its calls another time limit.
  ActorRef within(Clock::duration limit) const {
    ActorRef copy = *this;
    copy.limit_ = limit;
    return copy;
  }

  template <auto M, class... Args>
    requires detail::Implements<T, detail::InterfaceOf<M>>
  net::awaitable<Result<detail::ValueOf<M>>> call(Args&&... args) const {
    return detail::call<M>(router_, address_, limit_, detail::ArgumentsOf<M>(std::forward<Args>(args)...));
  }

  /// Sends a message without waiting for an answer. Fails with: mailbox_full and not_found (actors of this process
  /// only), peer_lost, exhausted (the link's queue is full), invalid_argument (too large). Success says nothing about
  /// what the actor does with it.
  template <auto M, class... Args>
    requires detail::Implements<T, detail::InterfaceOf<M>>
  Result<void> tell(Args&&... args) const {
    if (!router_) return Error{Errc::not_found, "tell on an empty ActorRef"};
    detail::ArgumentsOf<M> arguments(std::forward<Args>(args)...);
    detail::MethodMessage<M> message(arguments);
    return router_->tell(address_, detail::method_key<M>(), message);
  }

  const Address& address() const { return address_; }
  const std::shared_ptr<Router>& router() const { return router_; }
  explicit operator bool() const { return router_ != nullptr; }
  friend bool operator==(const ActorRef& a, const ActorRef& b) { return a.address_ == b.address_; }

 private:
  std::shared_ptr<Router> router_;
  Address address_;
  Clock::duration limit_ = default_deadline;
};

template <class T>
struct Codec<ActorRef<T>> {
  static void write(Writer& out, const ActorRef<T>& value) {
    out.number(value.address().process);
    out.number(value.address().actor);
  }
  static bool read(Reader& in, ActorRef<T>& value) {
    Address address;
    if (!in.number(address.process) || !in.number(address.actor)) return false;
    value = in.router() != nullptr && address != Address{} ? ActorRef<T>(*in.router(), address) : ActorRef<T>();
    return true;
  }
};

}  // namespace weir::runtime
