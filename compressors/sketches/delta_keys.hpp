#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

// Strictly ascending keys in SketchML's delta-adaptive code, of which delta-binary is a special case. The code holds
// the first key and then the gaps: the numbers of keys left out between two keys. 32 bits are divided into m = 2, 4, 8
// or 16 units of 32 / m bits. A number is written as a flag, which tells how many units it takes (at least one), and
// these units. The flag is the number of units less one, either in log2(m) bits or, if that is shorter for these keys,
// in unary: that many ones and a zero. All bits are written least significant bit first; unused bits of the last byte
// are zero.

/// The shortest code for `keys`, and its size in bytes.
struct DeltaCode {
  std::uint8_t id = 0;  ///< log2(m) - 1, plus 4 for unary flags
  std::size_t bytes = 0;

  static DeltaCode shortest(std::span<const std::uint32_t> keys);
};

/// Appends the code of `keys`, which takes code.bytes bytes.
void append_delta_keys(std::span<const std::uint32_t> keys, const DeltaCode& code, Bytes& out);

/// The least number of bytes that `count` keys take. A reader checks this before it allocates memory for them.
constexpr std::size_t delta_bytes_min(std::size_t count) { return (count * 3 + 7) / 8; }

/// Reads `keys`, which all lie below `entries`, from all of `in`. Fails with: malformed.
Result<void> read_delta_keys(BytesView in, std::uint8_t id, std::uint64_t entries, std::span<std::uint32_t> keys);

}  // namespace weir::compressors
