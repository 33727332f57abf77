#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "runtime/asio.hpp"
#include "runtime/clock.hpp"
#include "runtime/serialize.hpp"

/// The interfaces between the typed ActorRef (templates, one instance per method) and the untyped machinery behind it.
namespace weir::runtime {

/// Identifies an actor by its process and its number there. Process numbers are drawn at random at every start, so an
/// address never reaches a later process by accident.
struct Address {
  std::uint64_t process = 0;
  std::uint64_t actor = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// Identifies a method, both on the wire and for actors of this process.
struct MethodKey {
  std::uint64_t interface = 0;
  std::uint64_t method = 0;
  std::string_view name;  ///< of the interface, for error texts
};

/// The result of a turn, on its way to the waiting caller.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void write(Writer& out) const = 0;
  virtual void* value() = 0;  ///< the Result<R>, which a caller in this process moves out
};

/// Where answers are sent: the link of a peer, or the callers in this process.
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

/// The sender of messages that come over a link: its process, and the account that it has proven.
struct Caller {
  std::uint64_t process = 0;
  std::string account;
};

/// One message at its actor: the method to call and its arguments. Runs once, on the actor's strand.
class Turn {
 public:
  virtual ~Turn() = default;
  virtual net::awaitable<void> run() = 0;
  /// Called instead of run() if the actor does not accept the message. The caller gets `error`.
  virtual void refuse(Error error) = 0;

  std::shared_ptr<const Caller> caller;  ///< null if the message came from this process
};

/// A message to be sent: serialized for an actor of another process, or moved into a Turn for one of this process.
class Message {
 public:
  virtual ~Message() = default;
  virtual void write(Writer& out) const = 0;
  /// For an actor of this process. Moves the arguments out. `actor` is the object behind the interface.
  virtual std::unique_ptr<Turn> turn(void* actor, Reply reply) = 0;
};

/// A waiting caller. Exactly one of the members is called, once; each resumes the caller on the caller's executor.
class PendingReply {
 public:
  virtual ~PendingReply() = default;
  virtual void accept(Reader& in) = 0;
  virtual void accept_local(void* result) = 0;
  virtual void fail(Error error) = 0;
};

class CallTable;

/// Identifies a waiting call, so that it can be cancelled.
struct CallKey {
  std::shared_ptr<CallTable> table;
  std::uint64_t call = 0;
  /// The caller gets Errc::cancelled, unless it has its answer already.
  void cancel() const;
};

/// Delivers messages to actors of this process and of others. One per ActorSystem. Thread-safe.
class Router {
 public:
  virtual ~Router() = default;

  virtual std::uint64_t process() const = 0;

  /// Sends the message and keeps `waiting` until the answer, the deadline or the loss of the link. If call() itself
  /// fails, `waiting` stays with the caller. Fails with: not_found, mailbox_full, peer_lost, exhausted,
  /// invalid_argument (the message is larger than a frame may be).
  virtual Result<CallKey> call(const Address& to, const MethodKey& method, Clock::duration limit, Message& message,
                               std::unique_ptr<PendingReply>& waiting) = 0;

  /// Sends a message that is not answered. Fails with the same errors.
  virtual Result<void> tell(const Address& to, const MethodKey& method, Message& message) = 0;
};

}  // namespace weir::runtime
