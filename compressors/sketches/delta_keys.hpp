#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

// Strictly ascending keys as SketchML writes them (its delta-adaptive code, of which delta-binary is a case). Written
// are the first key and then the gaps, the numbers of keys left out between two. 32 bits are cut into m = 2, 4, 8 or 16
// units of 32 / m bits; a number is written as a flag that says how many units it takes, one at least, and these units.
// The flag is that count less one in log2(m) bits or, if that is shorter for these keys, in unary: so many ones and a
// zero. All least significant bit first; the rest of the last byte is zero.

/// The shortest code of `keys`, and how many bytes it takes.
struct DeltaCode {
  std::uint8_t id = 0;  ///< log2(m) - 1, plus 4 for unary flags
  std::size_t bytes = 0;

  static DeltaCode shortest(std::span<const std::uint32_t> keys);
};

/// Appends code.bytes bytes.
void append_delta_keys(std::span<const std::uint32_t> keys, const DeltaCode& code, Bytes& out);

/// `count` keys need this many bytes at least: what a reader checks before it makes room for them.
constexpr std::size_t delta_bytes_min(std::size_t count) { return (count * 3 + 7) / 8; }

/// Fills `keys`, which all lie below `entries`, from exactly `in`. Fails with: malformed.
Result<void> read_delta_keys(BytesView in, std::uint8_t id, std::uint64_t entries, std::span<std::uint32_t> keys);

}  // namespace weir::compressors
