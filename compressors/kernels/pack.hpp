#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace weir::compressors {

/// Bytes that `count` fields of `bits` bits take.
constexpr std::size_t packed_bytes(std::size_t count, unsigned bits) { return (count * bits + 7) / 8; }

/// Writes the low `bits` (1 to 8) of each code one behind the other, least significant bit first; the rest of the last
/// byte is zero. `out` has packed_bytes(codes.size(), bits).
void pack(std::span<const std::uint8_t> codes, unsigned bits, std::span<std::byte> out);

/// The inverse; `in` has packed_bytes(codes.size(), bits).
void unpack(BytesView in, unsigned bits, std::span<std::uint8_t> codes);

/// The bits behind the last of `count` fields are zero, as pack() leaves them.
bool padding_is_zero(BytesView in, std::size_t count, unsigned bits);

}  // namespace weir::compressors
