#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/communicator.hpp"
#include "collectives/task.hpp"
#include "collectives/transports/epoll_loop.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/stream.hpp"
#include "collectives/transports/stream_communicator.hpp"

// What a peer may write to a connection for gradients, and the communicator that reads it.

namespace weir::collectives::fuzz {

inline constexpr std::uint64_t attempt = 7;
/// Bytes of a message; more than a frame would be allowed to ask for at once.
inline constexpr std::size_t message_max = 100'000;

/// Takes messages of up to message_max bytes and checks that every byte has its place.
class Checked final : public Receiver {
 public:
  Result<void> begin(std::uint64_t bytes) override {
    if (bytes > message_max) return Error{Errc::malformed, "too long"};
    message_.assign(bytes, std::byte{});
    arrived_ = 0;
    return {};
  }
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) override {
    ensure(offset == arrived_ && offset + bytes <= message_.size(), "a piece lies within its message");
    return std::span(message_).subspan(offset, bytes);
  }
  void arrived(std::uint64_t offset, BytesView piece) override {
    ensure(offset == arrived_ && piece.data() == message_.data() + offset, "pieces arrive in order");
    arrived_ += piece.size();
  }

 private:
  Bytes message_;
  std::uint64_t arrived_ = 0;
};

/// Takes messages until the group fails.
inline Task<> take_all(Communicator& group) {
  Checked receiver;
  while (true) {
    Receive arrival(group, receiver);
    if (auto done = co_await arrival; !done) co_return done.error();
  }
}

/// Takes one message of the peer, rank 1.
inline Task<> take_one(Communicator& group) {
  Checked receiver;
  Receive arrival(group, 1, {}, receiver);
  co_return co_await arrival;
}

/// Reads messages from a connection until it fails or nothing is left. The peer has written all and hung up.
inline void receive(std::unique_ptr<Stream> connection) {
  EpollLoop loop;
  std::vector<std::unique_ptr<Stream>> streams(2);
  streams[1] = std::move(connection);
  const auto group = stream_communicator(loop, {.rank = 0, .attempt = attempt}, 0, std::move(streams));
  group->begin_operation({.name = "all_reduce", .over = "ring", .about = {}});
  auto task = take_all(*group);
  task.start();
  loop.run_while_busy();
  if (task.done()) return;
  // The peer has left in good order, which is no failure for somebody who waits for a message of any rank.
  auto last = take_one(*group);
  last.start();
  loop.run_while_busy();
  ensure(last.done() && !last.take_result(), "a connection of which all was read has ended");
}

/// Frames with valid checksums and, unless the input says otherwise, the right attempt, sequence, rank and lane, so
/// that the search gets behind these checks. Four bytes of input for each: kind and deviations, length, length of the
/// message. `checked_payloads`: the checksum covers the payload, as where bytes may change on their way.
inline Bytes valid_frames(BytesView input, bool checked_payloads) {
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
    append(stream, encode(header, digest_of(checked_payloads ? BytesView(payload) : BytesView())));
    append(stream, payload);
  }
  return stream;
}

}  // namespace weir::collectives::fuzz
