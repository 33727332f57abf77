#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::runtime {

/// The purpose of a frame. The values are part of the wire format.
enum class FrameKind : std::uint8_t {
  hello = 1,   ///< handshake: the sender's identity and a nonce
  proof = 2,   ///< handshake: the sender knows the secret
  refuse = 3,  ///< handshake: why the link is closed
  call = 4,
  tell = 5,
  reply = 6,
  ping = 7,
  pong = 8,
};
inline constexpr std::uint8_t frame_kind_max = 8;

/// The largest frame that a receiver accepts. A frame that announces more is refused before memory is allocated for it.
struct FrameLimits {
  std::uint32_t body_bytes_max = 16u << 20;
  std::uint32_t segments_max = 256;
  std::uint64_t segments_bytes_max = 4ull << 30;  ///< all segments of one frame together

  /// Limits for a peer that has not yet proven that it knows the secret.
  static FrameLimits unauthenticated() { return {.body_bytes_max = 4096, .segments_max = 0, .segments_bytes_max = 0}; }
};

/// A received frame. `body` is valid until the callback that got it returns; segments own their bytes.
struct FrameView {
  FrameKind kind{};
  BytesView body;
  std::span<const Segment> segments;
};

/// Wire format, little endian:
///
///     offset size
///      0     4    magic "WEIR"
///      4     1    version, 2
///      5     1    kind
///      6     2    number of segments, n
///      8     4    bytes of the body, b
///     12     4    low half of xxh3-64 over bytes 0..11, checked before the lengths are used
///     16     8    xxh3-64 of table and body; with segments, of each in turn, seeded with that of what comes before
///     24     8n   bytes of each segment
///     24+8n  b    body, then the segments' bytes
inline constexpr std::size_t frame_header_bytes = 24;
inline constexpr std::uint8_t frame_version = 2;

/// Frames waiting to be written. Bodies are small and are copied in; segments are only referenced. One gathering write
/// can take many frames. Not thread-safe.
class FrameBuffer {
 public:
  /// Appends one frame. Fails with: exhausted (a count or length that the header cannot hold).
  Result<void> add(FrameKind kind, BytesView body, std::span<const Segment> segments);

  /// Fills `out` with spans of the bytes still to be written, in order, and returns how many spans it filled. If `out`
  /// is too short, the rest is left out. The spans are valid until the buffer changes.
  std::size_t spans(std::span<BytesView> out) const;

  /// Drops the first `count` bytes, which have been written.
  void consume(std::size_t count);

  std::size_t bytes() const { return bytes_ - consumed_; }
  bool empty() const { return bytes() == 0; }
  void clear();

 private:
  struct Cut {
    std::size_t after;  ///< the segment comes after this many bytes of inline_
    Segment segment;
  };
  Bytes inline_;
  std::vector<Cut> cuts_;
  std::size_t bytes_ = 0;
  std::size_t consumed_ = 0;
  std::size_t inline_done_ = 0;   ///< written bytes of inline_
  std::size_t cuts_done_ = 0;     ///< written segments
  std::size_t segment_done_ = 0;  ///< written bytes of the segment that is next
};

/// Splits a byte stream into frames. The reader of the stream gets memory from prepare(), writes the next bytes there
/// and calls commit(); large bodies and segments are thus received directly into their final place. After an error the
/// stream cannot be decoded any further: close the link. Not thread-safe.
class FrameDecoder {
 public:
  explicit FrameDecoder(FrameLimits limits = {}, std::size_t buffer_bytes = 256 << 10);

  /// The memory for the next bytes. Never empty.
  std::span<std::byte> prepare();

  /// States that `count` bytes were written to the memory from prepare().
  void commit(std::size_t count);

  /// Reads the next complete frame. Returns false if more bytes are needed. The frame is valid until the next call of
  /// any member.
  /// Fails with: malformed, unsupported (another version), exhausted (over the limits).
  Result<bool> next(FrameView& frame);

  /// Takes effect with the next header.
  void set_limits(FrameLimits limits) { limits_ = limits; }

 private:
  struct Header {
    FrameKind kind{};
    std::uint16_t segments = 0;
    std::uint32_t body_bytes = 0;
    std::uint64_t checksum = 0;
  };
  Result<Header> parse_header(BytesView bytes) const;
  Result<void> begin_large(const Header& header, BytesView table);
  void fill_large();
  Result<bool> finish_large(FrameView& frame);

  FrameLimits limits_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  // A frame with segments, or one too large for the buffer, is collected in memory of its own.
  bool collecting_ = false;
  Header header_;
  std::size_t table_bytes_ = 0;
  Segment body_;  ///< table and body
  std::vector<Segment> segments_;
  std::vector<std::span<std::byte>> parts_;  ///< to be filled, in order: body, segments
  std::size_t part_ = 0;
  std::size_t part_done_ = 0;
};

}  // namespace weir::runtime
