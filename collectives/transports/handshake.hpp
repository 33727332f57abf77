#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "collectives/transports/mesh.hpp"

namespace weir::collectives {

namespace net = boost::asio;

// How two ranks open a connection: each proves that it knows the group's secret, by an HMAC-SHA256 over both sides'
// fresh nonces and everything they must agree on. The secret never travels and a recorded handshake cannot be replayed.
//
//     caller -> called   hello    u32 magic "WEIH", u32 version, u64 attempt, u32 from, u32 to, u32 size,
//                                 u16 lane, u8 whether TCP is wanted in any case, u8 zero,
//                                 u64 XXH3-64 of the job id, 32-byte nonce
//     called -> caller   answer   u32 magic, u32 verdict, 32-byte nonce, 32-byte proof
//     caller -> called   proof    32 bytes
//     called -> caller   verdict  u32 magic, u32 verdict
//
// A caller over TCP from the same host is told to call at the local socket instead (Verdict::call_locally), where the
// same handshake is followed by the descriptor of the memory that both will share.

/// One end of a connection: a rank, and the lane that it belongs to.
struct End {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;

  friend bool operator==(const End&, const End&) = default;
};

/// A connected stream socket of any kind.
using Socket = net::generic::stream_protocol::socket;

/// What the called side makes of a caller who has proved itself.
enum class Reception : std::uint8_t { welcome, call_locally };

struct Caller {
  End end;
  Reception reception = Reception::welcome;
};

/// The calling side. `tcp_only`: it does not want to be told to call locally. Fails with: unauthenticated, conflict
/// (another job, attempt or group), malformed, unsupported, peer_lost (the connection broke; calling again may help).
net::awaitable<Result<Reception>> greet(Socket& socket, const Group& group, const End& to, bool tcp_only);

/// The called side. `local_wanted`: callers are told to call locally, unless they want TCP. Returns the caller, who has
/// proved itself. Fails as `greet` does.
net::awaitable<Result<Caller>> admit(Socket& socket, const Group& group, bool local_wanted);

/// The name in the abstract namespace of Unix sockets at which a rank of the group, which listens on `port` too, is
/// called by others of its host. It can only be computed by who knows the secret.
std::string local_name(const Group& group, std::uint32_t rank, std::uint16_t port);

}  // namespace weir::collectives
