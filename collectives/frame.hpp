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

/// The header before every piece on a gradient socket, little-endian:
///
///     0  u32 magic "WEIG"   4  u8 version   5  u8 kind   6  u16 zero
///     8  u64 attempt       16  u64 sequence (frames before this one on this connection, in this direction)
///    24  u64 message_bytes 32  u32 frame_bytes (payload that follows)   36  u32 zero
///    40  u64 checksum: XXH3-64 of the payload, seeded with the XXH3-64 of the first 40 bytes
struct FrameHeader {
  FrameKind kind = FrameKind::data;
  std::uint64_t attempt = 0;
  std::uint64_t sequence = 0;
  std::uint64_t message_bytes = 0;
  std::uint32_t frame_bytes = 0;
};

using FrameHeaderBytes = std::array<std::byte, Communicator::frame_header_bytes>;

FrameHeaderBytes encode(const FrameHeader& header, BytesView payload);

/// Reads the fields; `checksum_fits` checks the checksum once the payload is there. Lengths are checked: `frame_bytes`
/// is at most Communicator::piece_bytes_max. Fails with: malformed, unsupported (another version).
Result<FrameHeader> decode(const FrameHeaderBytes& bytes);

bool checksum_fits(const FrameHeaderBytes& header, BytesView payload);

}  // namespace weir::collectives
