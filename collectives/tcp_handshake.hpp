#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>

#include "base/result.hpp"
#include "collectives/tcp_mesh.hpp"

namespace weir::collectives {

namespace net = boost::asio;

// How two ranks open a connection: each proves that it knows the group's secret, by an HMAC-SHA256 over both
// sides' fresh nonces and everything they must agree on. The secret never travels and a recorded handshake
// cannot be replayed.
//
//     caller -> called   hello    u32 magic "WEIH", u32 version, u64 attempt, u32 from, u32 to, u32 size,
//                                 u32 zero, u64 XXH3-64 of the job id, 32-byte nonce
//     called -> caller   answer   u32 magic, u32 verdict, 32-byte nonce, 32-byte proof
//     caller -> called   proof    32 bytes
//     called -> caller   verdict  u32 magic, u32 verdict

/// The calling side. Fails with: unauthenticated, conflict (another job, attempt or group), malformed,
/// unsupported, peer_lost (the connection broke; calling again may help).
net::awaitable<Result<void>> greet(net::ip::tcp::socket& socket, const Group& group, std::uint32_t to);

/// The called side. Returns the rank that has proved itself. Fails as `greet` does.
net::awaitable<Result<std::uint32_t>> admit(net::ip::tcp::socket& socket, const Group& group);

}  // namespace weir::collectives
