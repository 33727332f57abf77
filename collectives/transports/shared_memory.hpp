#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "collectives/transports/stream.hpp"

namespace weir::collectives {

/// Bytes that one process writes and another reads, as they lie in the memory that both share. The positions only grow;
/// byte n is at n modulo the capacity.
struct SharedRing {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> reader_waits;  ///< 1: ring the bell when there is more to read
  alignas(64) std::atomic<std::uint32_t> writer_waits;  ///< 1: ring the bell when there is more room
};

/// Memory that two processes of a host share for one connection: a ring for each direction. It has no name and is in no
/// directory: it is gone with the last of both, however they end.
class SharedMemory {
 public:
  /// `capacity`: bytes of each ring, a power of two of at least 4096. Fails with: exhausted.
  static Result<SharedMemory> create(std::size_t capacity);

  /// The memory that another process has created and whose descriptor it has passed on. Fails with: malformed (it has
  /// another size, or one that could still change).
  static Result<SharedMemory> open(Descriptor descriptor);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// To be passed on to the other process.
  int descriptor() const { return *descriptor_; }
  std::size_t capacity() const { return capacity_; }

  /// Of ring 0, in which the creator writes, and ring 1, in which the other does.
  SharedRing& ring(std::uint32_t number) const;
  std::span<std::byte> bytes(std::uint32_t number) const;

 private:
  SharedMemory(Descriptor descriptor, std::byte* begin, std::size_t capacity);

  Descriptor descriptor_;
  std::byte* begin_ = nullptr;
  std::size_t capacity_ = 0;
};

/// A connection through shared memory. A pair of connected sockets tells of what the memory cannot: a byte from the
/// other side is a bell, and means that there is more to read or more room; its end, that the other process has closed
/// or is gone. A bell is only rung for a side that waits for it.
class SharedMemoryStream final : public Stream {
 public:
  enum class Side : std::uint8_t { creator, other };

  /// `socket` does not block.
  SharedMemoryStream(Descriptor socket, SharedMemory memory, Side side);

  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<const iovec> parts) override;
  void end_writing() override;
  std::size_t queued_bytes() const override { return written_ - out_.read.load(); }
  int descriptor() const override { return *socket_; }
  Readiness readiness(std::uint32_t events) override;
  bool needs_checksums() const override { return false; }
  std::optional<LineUse> line_use() const override { return std::nullopt; }

 private:
  Result<std::size_t> room() const;
  Result<std::size_t> filled() const;
  void ring_bell() const;

  Descriptor socket_;
  SharedMemory memory_;
  SharedRing& out_;
  SharedRing& in_;
  std::span<std::byte> out_bytes_;
  std::span<std::byte> in_bytes_;
  // Our own positions: what the other process makes of those in memory changes nothing here.
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
  bool peer_ended_ = false;  ///< it writes no more
  bool peer_gone_ = false;   ///< it does not read any more either
};

}  // namespace weir::collectives
