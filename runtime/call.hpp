#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "runtime/asio.hpp"
#include "runtime/clock.hpp"
#include "runtime/serialize.hpp"

/// The seams between the typed ActorRef (templates, one instance per method) and the untyped machinery behind it.
namespace weir::runtime {

/// Which actor: the process it lives in and its number there. Process numbers are drawn at random at every start, so
/// they are incarnations too: an address never reaches a later process by accident.
struct Address {
  std::uint64_t process = 0;
  std::uint64_t actor = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// A method as the wire and a local actor know it.
struct MethodKey {
  std::uint64_t interface = 0;
  std::uint64_t method = 0;
  std::string_view name;  ///< of the interface, for error texts
};

/// The result of a turn, on its way to whoever waits for it.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void write(Writer& out) const = 0;
  virtual void* value() = 0;  ///< the Result<R>, for a caller in this process: it moves it out
};

/// Where answers go: a peer's link, or the callers of this process.
class ReplyPort {
 public:
  virtual ~ReplyPort() = default;
  virtual void answer(std::uint64_t call, Answer& answer) = 0;
};

/// The way back to one caller; empty for a tell.
struct Reply {
  std::shared_ptr<ReplyPort> port;
  std::uint64_t call = 0;
};

/// Who has sent a message over a link: what the other end has proven itself with.
struct Caller {
  std::uint64_t process = 0;
  std::string account;
};

/// One message's work in an actor: the method with its arguments. Runs on the actor's strand, once.
class Turn {
 public:
  virtual ~Turn() = default;
  virtual net::awaitable<void> run() = 0;
  /// Instead of run(): the actor does not take it.
  virtual void refuse(Error error) = 0;

  std::shared_ptr<const Caller> caller;  ///< null: this process
};

/// A message before it is known whether it must be written down.
class Message {
 public:
  virtual ~Message() = default;
  virtual void write(Writer& out) const = 0;
  /// For an actor of this process: takes the arguments. `actor` is the interface's object.
  virtual std::unique_ptr<Turn> turn(void* actor, Reply reply) = 0;
};

/// A caller that waits. Exactly one of the members is called, once; each gets the caller going on its own executor.
class PendingReply {
 public:
  virtual ~PendingReply() = default;
  virtual void accept(Reader& in) = 0;
  virtual void accept_local(void* result) = 0;
  virtual void fail(Error error) = 0;
};

class CallTable;

/// Names a waiting call, to give it up.
struct CallKey {
  std::shared_ptr<CallTable> table;
  std::uint64_t call = 0;
  /// The caller gets Errc::cancelled, unless it has its answer already.
  void cancel() const;
};

/// Brings messages to actors, here or in another process. One per ActorSystem; any thread.
class Router {
 public:
  virtual ~Router() = default;

  virtual std::uint64_t process() const = 0;

  /// Sends the message and keeps `waiting` until answer, deadline or loss. If it fails at once, `waiting` is untouched.
  /// Fails with: not_found, mailbox_full, peer_lost, exhausted.
  virtual Result<CallKey> call(const Address& to, const MethodKey& method, Clock::duration limit, Message& message,
                               std::unique_ptr<PendingReply>& waiting) = 0;

  /// The same without an answer.
  virtual Result<void> tell(const Address& to, const MethodKey& method, Message& message) = 0;
};

}  // namespace weir::runtime
