#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"
#include "collectives/descriptor.hpp"
#include "collectives/frame.hpp"

namespace weir::collectives {

/// Byte counts that other threads may read meanwhile.
struct TrafficCounter {
  std::atomic<std::uint64_t> sent_bytes = 0;
  std::atomic<std::uint64_t> received_bytes = 0;
};

/// How a connection ended.
struct Ending {
  bool orderly = false;                    ///< the peer said goodbye
  std::optional<std::uint32_t> lost_rank;  ///< the peer gave up because it lost this rank
};

/// One connection of a TcpCommunicator: the non-blocking socket, bytes read ahead, and the frame counters
/// of both directions. All members run on the communication thread.
class TcpLink {
 public:
  TcpLink(Descriptor socket, std::uint64_t attempt, TrafficCounter& traffic);

  int descriptor() const { return *socket_; }

  /// Whether an operation moved any byte.
  using Progress = Result<bool>;

  /// Starts sending a message, which must stay alive until `sending` is false.
  void begin_send(BytesView message);
  bool sending() const { return sending_; }
  /// Writes what the socket accepts without waiting. Fails with: peer_lost.
  Progress send_some();

  /// Starts receiving a message.
  void begin_receive(Receiver& receiver);
  bool receiving() const { return receiver_ != nullptr; }
  /// Reads what has arrived, without waiting. Fails with: peer_lost (see `ending`), malformed, unsupported, or the
  /// error that the receiver returns.
  Progress receive_some();

  /// For a peer that has shut down its side, or a connection that broke: reads what is left and finds out how it ended.
  /// Does not wait. Bounded, because what is left is already in the socket.
  void read_to_end();
  bool ended() const { return ended_; }
  const Ending& ending() const { return ending_; }

  /// Writes one last frame and shuts down writing. Returns false, without having done anything, if the socket has no
  /// room now. In the middle of a message a frame cannot be written, so it only shuts down writing.
  bool leave(FrameKind kind, std::uint64_t value);

  /// Shuts down writing: the peer sees the end of the stream.
  void hang_up();

 private:
  void next_frame();
  Result<void> begin_piece();
  Result<void> end_piece();
  Result<bool> fill(std::span<std::byte> into, std::size_t& filled);
  void note_ending(const FrameHeader& last);

  Descriptor socket_;
  const std::uint64_t attempt_;
  TrafficCounter& traffic_;

  bool sending_ = false;
  BytesView message_;    // the part of the outgoing message after the current frame
  BytesView piece_out_;  // the part of the current frame's payload not written yet
  FrameHeaderBytes header_out_{};
  std::size_t header_out_written_ = header_out_.size();
  std::uint64_t message_out_bytes_ = 0;
  std::uint64_t sequence_out_ = 0;

  Receiver* receiver_ = nullptr;
  FrameHeaderBytes header_in_{};
  std::size_t header_in_filled_ = 0;
  std::optional<FrameHeader> frame_in_;  // the frame whose payload is being read
  std::span<std::byte> piece_in_;
  std::size_t piece_in_filled_ = 0;
  std::optional<std::uint64_t> message_in_bytes_;  // known since the message's first frame
  std::uint64_t message_in_taken_ = 0;
  std::uint64_t sequence_in_ = 0;

  Bytes ahead_;  // read from the socket, not consumed yet
  std::size_t ahead_begin_ = 0;
  bool ended_ = false;
  Ending ending_;
};

}  // namespace weir::collectives
