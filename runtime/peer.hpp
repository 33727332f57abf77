#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor_system.hpp"
#include "runtime/call_table.hpp"
#include "runtime/event.hpp"
#include "runtime/handshake.hpp"
#include "runtime/transport.hpp"

namespace weir::runtime {

/// One link to another process: handshake, calls and answers in both directions, keep-alive. Owned by its Link until
/// that is closed, by the SystemCore while it is a peer, and by turns that have to answer over it. Frames and the
/// link's end are handled on the link's strand; call(), tell() and answer() may be called from any thread.
class Peer final : public LinkHandler, public ReplyPort, public std::enable_shared_from_this<Peer> {
 public:
  Peer(std::shared_ptr<SystemCore> core, std::shared_ptr<Link> link, Handshake::Role role);

  /// Begins the handshake.
  void start();

  /// Set when the handshake has succeeded or failed; outcome() then says which.
  const Event& ready() const { return ready_; }
  Result<PeerId> outcome() const { return outcome_; }

  Result<CallKey> call(std::uint64_t actor, const MethodKey& method, Clock::duration limit, const Message& message,
                       std::unique_ptr<PendingReply>& waiting);
  Result<void> tell(std::uint64_t actor, const MethodKey& method, const Message& message);

  /// ReplyPort
  void answer(std::uint64_t call, Answer& answer) override;

  /// Fails all waiting callers with `why` now and closes the link.
  void give_up(const Error& why);

  PeerInfo info() const;
  /// True if the other side opened the link.
  bool incoming() const { return handshake_.role() == Handshake::Role::listen; }
  /// The account that the link is authenticated with. Valid once the handshake is done.
  const std::string& account() const { return handshake_.account(); }

  /// LinkHandler
  void on_frame(const FrameView& frame) override;
  void on_closed(const Error& reason) override;

 private:
  void on_handshake_frame(const FrameView& frame);
  /// The handshake has failed, or has shown a peer that is not wanted.
  void refuse(const Error& why);
  void on_message(const FrameView& frame);
  void on_reply(const FrameView& frame);
  /// Answers a call that no actor accepts with `why`. A tell is logged and dropped.
  void refuse_call(const Reply& reply, const Error& why);
  Result<void> send_answer(std::uint64_t call, const Answer& answer);
  void send(const Handshake::Reply& reply);
  void close(const Error& why);
  void watch(Clock::duration time, void (Peer::*check)());
  void check_handshake();
  void check_alive();

  const std::shared_ptr<SystemCore> core_;
  const std::shared_ptr<Router> router_;  ///< the core, for the ActorRefs in received messages
  std::shared_ptr<Link> link_;
  Handshake handshake_;
  std::shared_ptr<const Caller> caller_;  ///< the other end, once it is authenticated
  Event ready_;
  Result<PeerId> outcome_ = Error{Errc::peer_lost};
  std::shared_ptr<CallTable> calls_;
  std::unique_ptr<Timer> watchdog_;
  std::uint64_t received_ = 0;  ///< bytes at the last check, as in the next line
  std::uint64_t acknowledged_ = 0;
  std::uint64_t ping_end_ = 0;  ///< bytes_acknowledged() once the last ping has reached the peer
  int silent_checks_ = 0;       ///< in a row
  bool refused_ = false;        ///< `outcome_` says why
  std::atomic<bool> open_ = false;
  std::atomic<bool> closing_ = false;  ///< the link is to be closed: frames that have come before that are dropped
};

}  // namespace weir::runtime
