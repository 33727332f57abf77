// What a peer may write to a gradient socket, through the communicator that reads these sockets.

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/descriptor.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "collectives/transports/stream_communicator.hpp"

namespace {

using weir::Bytes;
using weir::BytesView;
using weir::collectives::FrameHeader;
using weir::collectives::FrameKind;

constexpr std::uint64_t attempt = 7;
constexpr std::size_t message_max = 100'000;  // bytes; more than a frame would be allowed to ask for at once

/// Takes messages of up to message_max bytes and checks that every byte has its place.
class Checked final : public weir::collectives::Receiver {
 public:
  weir::Result<void> begin(std::uint64_t bytes) override {
    if (bytes > message_max) return weir::Error{weir::Errc::malformed, "too long"};
    message_.assign(bytes, std::byte{});
    arrived_ = 0;
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override {
    weir::ensure(offset == arrived_ && offset + bytes <= message_.size(), "a piece lies within its message");
    return std::span(message_).subspan(offset, bytes);
  }
  void arrived(std::uint64_t offset, BytesView piece) override {
    weir::ensure(offset == arrived_ && piece.data() == message_.data() + offset, "pieces arrive in order");
    arrived_ += piece.size();
  }

 private:
  Bytes message_;
  std::uint64_t arrived_ = 0;
};

/// Takes messages until the group fails.
weir::collectives::Task<> take_all(weir::collectives::Communicator& group) {
  Checked receiver;
  while (true) {
    weir::collectives::Receive arrival(group, receiver);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
}

/// Takes one message of the peer, rank 1.
weir::collectives::Task<> take_one(weir::collectives::Communicator& group) {
  Checked receiver;
  weir::collectives::Receive arrival(group, 1, {}, receiver);
  co_return co_await arrival;
}

/// Reads messages from a connection that `stream` was written to, until it fails or nothing is left.
void receive(BytesView stream) {
  int pair[2];
  weir::ensure(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a pair of sockets");
  const weir::Descriptor peer(pair[0]);
  const ssize_t sent = ::send(*peer, stream.data(), stream.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  weir::ensure(stream.empty() || sent == static_cast<ssize_t>(stream.size()), "the socket has room for the input");
  ::shutdown(*peer, SHUT_WR);
  weir::collectives::EpollLoop loop;
  std::vector<std::unique_ptr<weir::collectives::Stream>> streams(2);
  streams[1] = std::make_unique<weir::collectives::SocketStream>(weir::Descriptor(pair[1]));
  const auto group =
      weir::collectives::stream_communicator(loop, {.rank = 0, .attempt = attempt}, 0, std::move(streams));
  group->begin_operation({.name = "all_reduce", .over = "ring", .about = {}});
  auto task = take_all(*group);
  task.start();
  loop.run_while_busy();
  if (task.done()) return;
  // The peer has left in good order, which is no failure for somebody who waits for a message of any rank.
  auto last = take_one(*group);
  last.start();
  loop.run_while_busy();
  weir::ensure(last.done() && !last.take_result(), "a connection of which all was read has ended");
}

/// Frames with valid checksums and, unless the input says otherwise, the right attempt, sequence, rank and lane, so
/// that the search gets behind these checks. Four bytes of input for each: kind and deviations, length, length of the
/// message.
Bytes valid_frames(BytesView input) {
  Bytes stream;
  std::uint32_t sequence = 0;
  for (; input.size() >= 4 && stream.size() < message_max; input = input.subspan(4)) {
    const auto number = [&](std::size_t at) { return std::to_integer<std::uint8_t>(input[at]); };
    const Bytes payload(number(1), input[2]);
    const FrameHeader header{.kind = static_cast<FrameKind>(1 + (number(0) & 7) % 7),
                             .attempt = attempt + (number(0) >> 7),
                             .sequence = sequence + (number(0) >> 6 & 1U),
                             .from = static_cast<std::uint16_t>(1 + (number(0) >> 3 & 1)),
                             .lane = static_cast<std::uint16_t>(number(0) >> 4 & 1),
                             .subject = {.version = 1, .bucket = number(0) >> 5 & 1U, .part = 0},
                             .message_bytes = std::uint64_t{number(2)} << (number(3) % 64),
                             .frame_bytes = static_cast<std::uint32_t>(payload.size()),
                             .operation = {.number = static_cast<std::uint16_t>(number(3) >> 6), .mark = 0}};
    if (header.kind != FrameKind::waits) ++sequence;
    const auto bytes = encode(header, weir::collectives::digest_of(payload));
    weir::append(stream, bytes);
    weir::append(stream, payload);
  }
  return stream;
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
  if (data[0] % 3 == 2) receive(valid_frames(bytes));
  return 0;
}
