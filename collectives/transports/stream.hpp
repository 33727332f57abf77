#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"

namespace weir::collectives {

/// What has become possible on a stream.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hung_up = false;  ///< the peer writes no more: what it has written can still be read
};

/// What the line under a stream has carried.
struct LineUse {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds busy{};  ///< how long bytes waited for the line, and not for the peer to read
};

/// A connection to one rank that carries bytes both ways and never waits.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Takes as many of the bytes as there is room for, in order. If not all of them, an event follows when there is room
  /// again. Fails with: peer_lost.
  virtual Result<std::size_t> write(std::span<const iovec> parts) = 0;

  /// Fills as many of the bytes as have arrived, in order. If the first part is not full, an event follows when there
  /// are more, though maybe not for each few; if another is not, when there are any. Fails with: peer_lost, also at the
  /// end of the stream; malformed.
  virtual Result<std::size_t> read(std::span<const iovec> parts) = 0;

  /// What is written from now on is the last: where bytes are held back to keep to a rate, these are not.
  virtual void begin_last_words() {}

  /// Nothing follows: the peer sees the end of the stream.
  virtual void end_writing() = 0;

  /// How many of the bytes that were written have not arrived: as the peer reads, they become fewer.
  virtual std::size_t queued_bytes() const = 0;

  /// What tells of events, edge by edge (EPOLLET).
  virtual int descriptor() const = 0;

  /// What the events of the descriptor (EPOLLIN, ...) mean. To be called for each.
  virtual Readiness readiness(std::uint32_t events) = 0;

  /// Whether what was written was sent again and again for more than ten seconds, and nothing says that it arrived: the
  /// host of the peer or the way there is gone. A peer that does not read is not meant, whose host answers.
  virtual bool is_unanswered() const { return false; }

  /// Whether bytes may change on their way, so that their checksums are worth computing.
  virtual bool needs_checksums() const = 0;

  /// What has been written so far, as far as the peer has it; nothing if bytes go through no line, or it is not known.
  virtual std::optional<LineUse> line_use() const = 0;
};

}  // namespace weir::collectives
