// What a peer may write to a gradient socket, through the communicator that reads these sockets.

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/descriptor.hpp"
#include "base/ensure.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "frame_input.hpp"

namespace {

using weir::BytesView;

/// Reads messages from a connection that `stream` was written to, until it fails or nothing is left.
void receive(BytesView stream) {
  int pair[2];
  weir::ensure(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a pair of sockets");
  const weir::Descriptor peer(pair[0]);
  const ssize_t sent = ::send(*peer, stream.data(), stream.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  weir::ensure(stream.empty() || sent == static_cast<ssize_t>(stream.size()), "the socket has room for the input");
  ::shutdown(*peer, SHUT_WR);
  weir::collectives::fuzz::receive(std::make_unique<weir::collectives::SocketStream>(weir::Descriptor(pair[1])));
}

/// Whatever decodes encodes to the same bytes, up to those that have no meaning.
void decode_alone(BytesView input) {
  weir::collectives::FrameHeaderBytes bytes{};
  if (input.size() < bytes.size()) return;
  std::memcpy(bytes.data(), input.data(), bytes.size());
  const auto header = weir::collectives::decode(bytes);
  if (!header) return;
  const BytesView rest = input.subspan(bytes.size());
  const BytesView payload = rest.first(std::min<std::size_t>(rest.size(), header->frame_bytes));
  const auto digest = weir::collectives::digest_of(payload);
  const auto again = weir::collectives::decode(weir::collectives::encode(*header, digest));
  weir::ensure(again && *again == *header, "a header that decodes is encoded as itself");
  (void)weir::collectives::checksum_fits(bytes, digest);
}

}  // namespace

/// Byte 0 chooses: a header alone, a stream as it is, or frames with valid checksums.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 3 == 0) decode_alone(bytes);
  if (data[0] % 3 == 1) receive(bytes);
  if (data[0] % 3 == 2) receive(weir::collectives::fuzz::valid_frames(bytes, true));
  return 0;
}
