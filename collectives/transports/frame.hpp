#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/communicator.hpp"

namespace weir::collectives {

enum class FrameKind : std::uint8_t {
  data = 1,       ///< a piece of a message; `message_bytes` is the length of the whole message
  goodbye = 2,    ///< the sender leaves in good order; nothing follows
  failed = 3,     ///< the sender gives up because it lost rank `message_bytes`; nothing follows
  disagrees = 4,  ///< the sender gives up because two ranks, which are the halves of `message_bytes`, the low one
                  ///< first, do not agree about the subject; nothing follows
  waits = 5,      ///< the sender waits for a message, and says in which operation. Not counted in the sequence
  gives_up = 6,   ///< rank `message_bytes` has given up for a reason of its own, the subject or, if the high half is
                  ///< not 0, all; nothing follows
  packed = 7,     ///< as data, of numbers that take fewer bytes because they are packed (packing.hpp)
};

/// Whether the payload is a piece of a message.
constexpr bool carries_piece(FrameKind kind) { return kind == FrameKind::data || kind == FrameKind::packed; }

/// The header before every piece on a gradient connection, little-endian:
///
///     0  u32 magic "WEIG"   4  u8 version   5  u8 kind   6  u16 number of the operation
///     8  u64 attempt       16  u32 sequence (frames before this one on this connection, in this direction, mod 2^32)
///    20  u16 rank of the sender               22  u16 lane
///    24  u64 version of the subject         32  u32 bucket     36  u32 part
///    40  u64 message_bytes 48  u32 frame_bytes (payload that follows)   52  u32 mark of the operation
///    56  u64 checksum: XXH3-64 of the first 56 bytes, seeded with the XXH3-64 of the payload. Between processes that
///        share memory, in which no byte changes on its way: with that of an empty payload
struct FrameHeader {
  FrameKind kind = FrameKind::data;
  std::uint64_t attempt = 0;
  std::uint32_t sequence = 0;
  std::uint16_t from = 0;  ///< the sender's rank
  std::uint16_t lane = 0;
  Subject subject;
  std::uint64_t message_bytes = 0;
  std::uint32_t frame_bytes = 0;
  OperationTag operation = {};

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FrameHeaderBytes = std::array<std::byte, Communicator::frame_header_bytes>;

PieceDigest digest_of(BytesView payload);

FrameHeaderBytes encode(const FrameHeader& header, PieceDigest payload);

/// Checks everything that can be checked without the payload. Fails with: malformed, unsupported (another version).
Result<FrameHeader> decode(const FrameHeaderBytes& bytes);

bool checksum_fits(const FrameHeaderBytes& header, PieceDigest payload);

}  // namespace weir::collectives
