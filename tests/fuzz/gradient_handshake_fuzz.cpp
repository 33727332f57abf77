// What a stranger may say in the handshake of two ranks, on either side.

#include <sys/socket.h>
#include <xxhash.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/descriptor.hpp"
#include "base/ensure.hpp"
#include "collectives/transports/handshake.hpp"

namespace {

namespace net = boost::asio;
using weir::BytesView;
using weir::collectives::Socket;

/// Runs one side with a peer that has written `said` and then hangs up. Without the secret no proof is right, so that
/// the side must never succeed.
template <class Side>
void talk(BytesView said, const Side& side) {
  int pair[2];
  weir::ensure(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a pair of sockets");
  const weir::Descriptor peer(pair[0]);
  net::io_context context(1);
  Socket socket(context);
  socket.assign({AF_UNIX, 0}, pair[1]);
  const ssize_t sent = ::send(*peer, said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  weir::ensure(said.empty() || sent == static_cast<ssize_t>(said.size()), "the socket has room for the input");
  ::shutdown(*peer, SHUT_WR);
  bool succeeded = false;
  bool ended = false;
  net::co_spawn(context, side(socket), [&](std::exception_ptr thrown, const auto& result) {
    weir::ensure(!thrown, "a handshake does not throw");
    succeeded = result.has_value();
    ended = true;
  });
  context.run();
  weir::ensure(ended && !succeeded, "a stranger is refused");
}

}  // namespace

/// Byte 0 chooses the side. To get behind the fields that a stranger cannot guess by chance, an odd choice puts the
/// magic number, the version and what the group agrees on where they belong.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const weir::collectives::Group group{.job_id = "job", .attempt = 7, .secret = "a secret", .rank = 0, .size = 2};
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  weir::Bytes said(input.begin(), input.end());
  const auto put = [&](std::size_t at, auto value) {
    if (at + sizeof value <= said.size()) std::memcpy(said.data() + at, &value, sizeof value);
  };
  if (data[0] & 1) put(0, std::uint32_t{0x48494557});  // "WEIH"
  if (data[0] & 2) {
    if (data[0] & 1) {
      put(4, std::uint32_t{3});
      put(8, group.attempt);
      put(16, std::uint32_t{1});  // from
      put(20, group.rank);
      put(24, group.size);
      put(32, XXH3_64bits(group.job_id.data(), group.job_id.size()));
    }
    talk(said, [&](Socket& socket) { return weir::collectives::admit(socket, group, (data[0] & 4) != 0); });
  } else {
    talk(said, [&](Socket& socket) {
      return weir::collectives::greet(socket, group, {.rank = 1, .lane = 0}, (data[0] & 4) != 0);
    });
  }
  return 0;
}
