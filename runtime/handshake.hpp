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
/// The account names the secret: there is one for the nodes and one for each job. The listening end proves itself
/// second, and treats an unknown account like a wrong secret, so that a stranger learns nothing from it. Does no input
/// or output. Not thread-safe.
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
  struct Reply {  ///< a frame to be sent
    FrameKind kind{};
    Bytes body;
  };

  Handshake(Role role, const Secrets& secrets, Identity own);

  /// The first frame to send; only the connecting end has one.
  std::optional<Reply> open() const;

  /// Handles a received frame and returns the frame to answer with, if any. Fails with: unauthenticated, unsupported
  /// (version), malformed (not a frame expected now), conflict (the peer is this process), or the error in a refuse
  /// frame.
  Result<std::optional<Reply>> receive(const FrameView& frame);

  Role role() const { return role_; }
  bool done() const { return state_ == State::done; }
  /// Its name is fit for a log, whatever was sent.
  const Identity& peer() const { return peer_; }
  /// The account whose secret the ends prove to each other.
  const std::string& account() const { return role_ == Role::connect ? own_.account : peer_.account; }

  /// The frame that tells the other end why it is refused.
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
