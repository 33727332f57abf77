#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::collectives {

/// All bytes of one communicator: payload, frame headers and goodbyes, but not the opening handshake.
struct Traffic {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

/// Receives one message while it arrives, piece by piece. Called only from within Communicator::exchange, on its
/// thread; work done in `arrived` overlaps with the transfer of the next pieces.
class Receiver {
 public:
  virtual ~Receiver() = default;

  /// Announces a message of this many bytes. The number comes from the peer: check it before allocating memory.
  virtual Result<void> begin(std::uint64_t message_bytes) = 0;

  /// Memory for the piece that starts at `offset`. It may be the same memory each time.
  virtual std::span<std::byte> place(std::uint64_t offset, std::size_t bytes) = 0;

  /// Called when the piece is in the memory that `place` returned and its checksum is right.
  virtual void arrived(std::uint64_t offset, std::span<const std::byte> piece) = 0;
};

/// One rank's end of the data plane of a group: messages of bytes to and from every other rank. Owned by the
/// trainer's exchange. Blocking, and meant for one dedicated communication thread, never for an actor's
/// strand; only `abort`, `traffic` and `lost_rank` may be called from other threads.
///
/// The first failure is final: every later call fails with the same error, and the group's other ranks fail
/// too. Destroying a communicator without `close` tells the others that this rank is lost.
class Communicator {
 public:
  /// A message travels in frames of at most this many payload bytes; a Receiver sees one frame as one piece.
  /// A multiple of every element size, and small enough that a piece is still in the cache when it is worked
  /// on.
  static constexpr std::size_t piece_bytes_max = 256 * 1024;
  static constexpr std::size_t frame_header_bytes = 48;

  /// The bytes that a message takes on the wire. An empty message is one header.
  static constexpr std::uint64_t wire_bytes(std::uint64_t message_bytes) {
    const std::uint64_t frames = message_bytes == 0 ? 1 : (message_bytes + piece_bytes_max - 1) / piece_bytes_max;
    return message_bytes + frames * frame_header_bytes;
  }

  virtual ~Communicator() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;

  /// Sends one message to rank `to` and receives one from rank `from`, at the same time. Both are other ranks and may
  /// be the same one. Returns when the message from `from` has arrived in full and the own one has been handed to the
  /// operating system. Fails with: peer_lost (ANY rank of the group, not only these two; names it), malformed (a frame
  /// does not follow the format, or is not the expected one), the error that the receiver returned, or the error given
  /// to `abort`.
  virtual Result<void> exchange(std::uint32_t to, BytesView message, std::uint32_t from, Receiver& receiver) = 0;

  /// Makes the pending call and all later ones fail at once with `cause`. From any thread.
  virtual void abort(Error cause) = 0;

  /// Leaves the group in an orderly way: says goodbye to the others, so that they do not count this rank as lost, and
  /// waits a few seconds at most until they are done too. Afterwards the communicator may only be destroyed. After a
  /// failure, close() does nothing.
  virtual void close() = 0;

  virtual Traffic traffic() const = 0;

  /// The rank whose loss made this group fail, if that is why.
  virtual std::optional<std::uint32_t> lost_rank() const = 0;
};

}  // namespace weir::collectives
