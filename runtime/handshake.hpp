#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/hmac.hpp"
#include "base/result.hpp"
#include "runtime/frame.hpp"

namespace weir::runtime {

/// Version of everything inside the frames. Both ends must have the same.
inline constexpr std::uint32_t protocol_version = 2;

/// The first frames of a link, in which each end proves to the other that it knows a secret, without sending it:
///
///     connecting end                                            listening end
///     hello {version, process, name, account, nonce c}   ->
///                                                        <-     hello {version, process, name, "", nonce s}
///     proof HMAC(secret, "connect" c s ids account)      ->
///                                                        <-     proof HMAC(secret, "listen" c s ids account)
///
/// The account says which secret it is: those of nodes and of each job differ. The listening end proves itself second,
/// and an account that it does not have is to it one with a wrong secret, so that it tells a stranger nothing. Knows no
/// sockets. Not thread-safe.
class Handshake {
 public:
  enum class Role { connect, listen };
  struct Identity {
    std::uint64_t process = 0;
    std::string name;
    std::string account = {};
  };
  /// The secret of an account, or nothing if there is no such account.
  using Secrets = std::function<std::optional<std::string>(std::string_view account)>;
  struct Reply {  ///< to be sent
    FrameKind kind{};
    Bytes body;
  };

  Handshake(Role role, const Secrets& secrets, Identity own);

  /// What to send before anything has come; only the connecting end does.
  std::optional<Reply> open() const;

  /// What a frame asks for; nothing to send is possible. Fails with: unauthenticated, unsupported (version), malformed
  /// (not this frame now), conflict (the peer is this process), or what a refuse frame says.
  Result<std::optional<Reply>> receive(const FrameView& frame);

  Role role() const { return role_; }
  bool done() const { return state_ == State::done; }
  const Identity& peer() const { return peer_; }
  /// The account that the ends have proven to each other.
  const std::string& account() const { return role_ == Role::connect ? own_.account : peer_.account; }

  /// Tells the other end why it is turned away.
  static Reply refuse(const Error& why);

 private:
  enum class State { hello, proof, done };
  Reply hello() const;
  Reply proof() const;
  Digest expected(Role prover) const;
  Result<std::optional<Reply>> receive_hello(BytesView body);
  Result<std::optional<Reply>> receive_proof(BytesView body);

  Role role_;
  Secrets secrets_;
  Identity own_;
  Identity peer_;
  Digest own_nonce_;
  Digest peer_nonce_{};
  State state_ = State::hello;
};

}  // namespace weir::runtime
