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

/// Bytes counted while other threads look at them.
struct TrafficCounter {
  std::atomic<std::uint64_t> sent_bytes = 0;
  std::atomic<std::uint64_t> received_bytes = 0;
};

/// How a connection ended.
struct Ending {
  bool orderly = false;                    ///< the peer said goodbye
  std::optional<std::uint32_t> lost_rank;  ///< the peer gave up because it lost this rank
};

/// One connection of a TcpCommunicator: the non-blocking socket, what was read ahead, and the frame counters
/// of both directions. All members run on the communication thread.
class TcpLink {
 public:
  TcpLink(Descriptor socket, std::uint64_t attempt, TrafficCounter& traffic);

  int descriptor() const { return *socket_; }

  /// Progress of one operation: whether any byte moved.
  using Progress = Result<bool>;

  /// Starts sending a message, which must stay alive until `sending` is false.
  void begin_send(BytesView message);
  bool sending() const { return sending_; }
  /// Writes what the socket takes without waiting. Fails with: peer_lost.
  Progress send_some();

  /// Starts taking a message in.
  void begin_receive(Receiver& receiver);
  bool receiving() const { return receiver_ != nullptr; }
  /// Reads what is there without waiting. Fails with: peer_lost (see `ending`), malformed, unsupported, or
  /// what the receiver refuses with.
  Progress receive_some();

  /// The peer has shut its side down, or the connection broke: reads what is left and finds out how it ended.
  /// Does not wait. Bounded, because what is left already lies in the socket.
  void read_to_end();
  bool ended() const { return ended_; }
  const Ending& ending() const { return ending_; }

  /// Writes one last frame and shuts down writing. False if the socket has no room now: nothing has happened then. In
  /// the middle of a message there is no place for a frame, and only the second is done.
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
  BytesView message_;    // what of the outgoing message follows the current frame
  BytesView piece_out_;  // what of the current frame's payload is not written yet
  FrameHeaderBytes header_out_{};
  std::size_t header_out_written_ = header_out_.size();
  std::uint64_t message_out_bytes_ = 0;
  std::uint64_t sequence_out_ = 0;

  Receiver* receiver_ = nullptr;
  FrameHeaderBytes header_in_{};
  std::size_t header_in_filled_ = 0;
  std::optional<FrameHeader> frame_in_;  // whose payload is being read
  std::span<std::byte> piece_in_;
  std::size_t piece_in_filled_ = 0;
  std::optional<std::uint64_t> message_in_bytes_;  // known since the message's first frame
  std::uint64_t message_in_taken_ = 0;
  std::uint64_t sequence_in_ = 0;

  Bytes ahead_;  // read from the socket, not taken yet
  std::size_t ahead_begin_ = 0;
  bool ended_ = false;
  Ending ending_;
};

}  // namespace weir::collectives
