#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.hpp"

namespace weir::compressors {

// Numbers in payloads: 32-bit little-endian integers and floats, and LEB128 varints of up to five bytes in their
// shortest form.

static_assert(std::endian::native == std::endian::little, "payloads are written by copying little-endian words");

inline constexpr std::uint64_t varint_max = (std::uint64_t{1} << 35) - 1;

inline void store_u32(std::byte* to, std::uint32_t value) { std::memcpy(to, &value, sizeof value); }

inline std::uint32_t load_u32(const std::byte* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store_f32(std::byte* to, float value) { std::memcpy(to, &value, sizeof value); }

inline float load_f32(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

constexpr std::size_t varint_bytes(std::uint64_t value) {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

/// Writes varint_bytes(value) bytes and returns the address after them.
inline std::byte* store_varint(std::byte* to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::byte>(value | 0x80);
  *to++ = static_cast<std::byte>(value);
  return to;
}

inline void append_varint(Bytes& out, std::uint64_t value) {
  std::byte bytes[5];
  out.insert(out.end(), bytes, store_varint(bytes, value));
}

/// Reads a varint and removes it from the front of `in`. Returns nothing if it is cut off, longer than five bytes or
/// not in its shortest form.
inline std::optional<std::uint64_t> read_varint(BytesView& in) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 5 && i < in.size(); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(in[i]);
    value |= (byte & 0x7F) << (7 * i);
    if (byte & 0x80) continue;
    if (i > 0 && byte == 0) return std::nullopt;
    in = in.subspan(i + 1);
    return value;
  }
  return std::nullopt;
}

}  // namespace weir::compressors
