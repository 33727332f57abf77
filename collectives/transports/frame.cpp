#include "collectives/transports/frame.hpp"

#include <bit>
#include <cstring>
#include <string>

#include "base/errc.hpp"
#include "base/xxh3.hpp"

namespace weir::collectives {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

constexpr std::uint32_t magic = 0x47494557;  // "WEIG"
constexpr std::uint8_t version = 6;
constexpr std::size_t checksum_offset = 56;

template <class T>
void put(FrameHeaderBytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <class T>
T take(const FrameHeaderBytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t checksum(const FrameHeaderBytes& header, PieceDigest payload) {
  return XXH3_64bits_withSeed(header.data(), checksum_offset, static_cast<std::uint64_t>(payload));
}

}  // namespace

PieceDigest digest_of(BytesView payload) { return PieceDigest{XXH3_64bits(payload.data(), payload.size())}; }

FrameHeaderBytes encode(const FrameHeader& header, PieceDigest payload) {
  FrameHeaderBytes bytes{};
  put(bytes, 0, magic);
  put(bytes, 4, version);
  put(bytes, 5, static_cast<std::uint8_t>(header.kind));
  put(bytes, 6, header.operation.number);
  put(bytes, 8, header.attempt);
  put(bytes, 16, header.sequence);
  put(bytes, 20, header.from);
  put(bytes, 22, header.lane);
  put(bytes, 24, header.subject.version);
  put(bytes, 32, header.subject.bucket);
  put(bytes, 36, header.subject.part);
  put(bytes, 40, header.message_bytes);
  put(bytes, 48, header.frame_bytes);
  put(bytes, 52, header.operation.mark);
  put(bytes, checksum_offset, checksum(bytes, payload));
  return bytes;
}

Result<FrameHeader> decode(const FrameHeaderBytes& bytes) {
  if (take<std::uint32_t>(bytes, 0) != magic) return Error{Errc::malformed, "no gradient frame starts here"};
  if (take<std::uint8_t>(bytes, 4) != version) {
    return Error{Errc::unsupported, "gradient frame of version " + std::to_string(take<std::uint8_t>(bytes, 4))};
  }
  FrameHeader header;
  const auto kind = take<std::uint8_t>(bytes, 5);
  if (kind < 1 || kind > 7) return Error{Errc::malformed, "gradient frame of unknown kind " + std::to_string(kind)};
  header.kind = static_cast<FrameKind>(kind);
  header.attempt = take<std::uint64_t>(bytes, 8);
  header.sequence = take<std::uint32_t>(bytes, 16);
  header.from = take<std::uint16_t>(bytes, 20);
  header.lane = take<std::uint16_t>(bytes, 22);
  header.subject = {.version = take<std::uint64_t>(bytes, 24),
                    .bucket = take<std::uint32_t>(bytes, 32),
                    .part = take<std::uint32_t>(bytes, 36)};
  header.message_bytes = take<std::uint64_t>(bytes, 40);
  header.frame_bytes = take<std::uint32_t>(bytes, 48);
  header.operation = {.number = take<std::uint16_t>(bytes, 6), .mark = take<std::uint32_t>(bytes, 52)};
  if (header.frame_bytes > Communicator::piece_bytes_max) {
    return Error{Errc::malformed, "gradient frame of " + std::to_string(header.frame_bytes) + " bytes"};
  }
  return header;
}

bool checksum_fits(const FrameHeaderBytes& header, PieceDigest payload) {
  return take<std::uint64_t>(header, checksum_offset) == checksum(header, payload);
}

}  // namespace weir::collectives
