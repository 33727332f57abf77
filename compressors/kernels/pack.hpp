#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

/// The number of bytes that `count` fields of `bits` bits occupy.
constexpr std::size_t packed_bytes(std::size_t count, unsigned bits) { return (count * bits + 7) / 8; }

/// Packs the low `bits` (1 to 8) bits of each code without gaps, least significant bit first; unused bits of the last
/// byte are zero. `out` has packed_bytes(codes.size(), bits) bytes.
void pack(std::span<const std::uint8_t> codes, unsigned bits, std::span<std::byte> out);

/// The inverse of pack(). `in` has packed_bytes(codes.size(), bits) bytes.
void unpack(BytesView in, unsigned bits, std::span<std::uint8_t> codes);

/// True if the unused bits of the last byte are zero, as pack() leaves them.
bool padding_is_zero(BytesView in, std::size_t count, unsigned bits);

}  // namespace weir::compressors
