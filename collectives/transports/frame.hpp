#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"

namespace weir::collectives {

enum class FrameKind : std::uint8_t {
  data = 1,     ///< a piece of a message; `message_bytes` is the whole message's length
  goodbye = 2,  ///< the sender leaves in good order; nothing follows
  failed = 3,   ///< the sender gives up because it lost rank `message_bytes`; nothing follows
};

/// The header before every piece on a gradient connection, little-endian:
///
///     0  u32 magic "WEIG"   4  u8 version   5  u8 kind   6  u16 zero
///     8  u64 attempt       16  u64 sequence (frames before this one on this connection, in this direction)
///    24  u64 version of the subject         32  u32 bucket     36  u32 part
///    40  u64 message_bytes 48  u32 frame_bytes (payload that follows)   52  u32 zero
///    56  u64 checksum: XXH3-64 of the payload, seeded with the XXH3-64 of the first 56 bytes. Between processes that
///        share memory, in which no byte changes on its way: of an empty payload
struct FrameHeader {
  FrameKind kind = FrameKind::data;
  std::uint64_t attempt = 0;
  std::uint64_t sequence = 0;
  Subject subject;
  std::uint64_t message_bytes = 0;
  std::uint32_t frame_bytes = 0;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FrameHeaderBytes = std::array<std::byte, Communicator::frame_header_bytes>;

FrameHeaderBytes encode(const FrameHeader& header, BytesView payload);

/// Checks everything that can be checked without the payload. Fails with: malformed, unsupported (another version).
Result<FrameHeader> decode(const FrameHeaderBytes& bytes);

bool checksum_fits(const FrameHeaderBytes& header, BytesView payload);

}  // namespace weir::collectives
