#include "compressors/sketches/delta_keys.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/errc.hpp"
#include "compressors/codecs/fields.hpp"

namespace weir::compressors {
namespace {

constexpr std::uint8_t unary_flag = 4;
constexpr std::uint8_t ids_end = 8;

/// The code that an id stands for.
struct Units {
  unsigned flag_bits;  ///< size of the flag, if not unary
  unsigned unit_bits;  ///< 32 / 2^flag_bits
  bool unary;

  explicit Units(std::uint8_t id)
      : flag_bits((id & 3U) + 1), unit_bits(32U >> flag_bits), unary((id & unary_flag) != 0) {}

  /// The number of units that a number of `width` bits takes.
  unsigned count(unsigned width) const { return std::max(1U, (width + unit_bits - 1) >> (5 - flag_bits)); }
  unsigned flag_width(unsigned count) const { return unary ? count : flag_bits; }
  std::uint64_t flag(unsigned count) const { return unary ? (std::uint64_t{1} << (count - 1)) - 1 : count - 1; }
};

std::uint32_t number(std::span<const std::uint32_t> keys, std::size_t i) {
  return i == 0 ? keys[0] : keys[i] - keys[i - 1] - 1;
}

}  // namespace

DeltaCode DeltaCode::shortest(std::span<const std::uint32_t> keys) {
  std::array<std::size_t, 33> widths{};
  for (std::size_t i = 0; i < keys.size(); ++i) ++widths[static_cast<std::size_t>(std::bit_width(number(keys, i)))];
  DeltaCode best;
  for (std::uint8_t id = 0; id < ids_end; ++id) {
    const Units units(id);
    std::size_t bits = 0;
    for (unsigned width = 0; width < widths.size(); ++width) {
      const unsigned count = units.count(width);
      bits += widths[width] * (units.flag_width(count) + count * units.unit_bits);
    }
    const std::size_t bytes = (bits + 7) / 8;
    if (id == 0 || bytes < best.bytes) best = {id, bytes};
  }
  return best;
}

void append_delta_keys(std::span<const std::uint32_t> keys, const DeltaCode& code, Bytes& out) {
  const Units units(code.id);
  out.resize(out.size() + code.bytes);
  std::byte* to = out.data() + out.size() - code.bytes;
  std::uint64_t pending = 0;
  unsigned filled = 0;  // below 8 between numbers; a number takes at most 48 bits
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t value = number(keys, i);
    const unsigned count = units.count(static_cast<unsigned>(std::bit_width(value)));
    const unsigned flag_width = units.flag_width(count);
    pending |= (units.flag(count) | std::uint64_t{value} << flag_width) << filled;
    filled += flag_width + count * units.unit_bits;
    for (; filled >= 8; filled -= 8, pending >>= 8) *to++ = static_cast<std::byte>(pending);
  }
  if (filled > 0) *to = static_cast<std::byte>(pending);
}

Result<void> read_delta_keys(BytesView in, std::uint8_t id, std::uint64_t entries, std::span<std::uint32_t> keys) {
  if (id >= ids_end) return Error(Errc::malformed, "keys in no known code");
  const Units units(id);
  std::uint64_t bit = 0;
  std::uint64_t least = 0;  // the smallest value that the next key may have
  for (std::uint32_t& key : keys) {
    const std::uint64_t word = load_word(in, bit / 8) >> (bit % 8);
    const auto flag = units.unary ? static_cast<unsigned>(std::countr_one(word))
                                  : static_cast<unsigned>(word & ((1U << units.flag_bits) - 1));
    const unsigned count = flag + 1;
    if (count * units.unit_bits > 32) return Error(Errc::malformed, "a key of more than 32 bits");
    const unsigned flag_width = units.flag_width(count);
    const std::uint64_t value = word >> flag_width & ((std::uint64_t{1} << count * units.unit_bits) - 1);
    if (units.count(static_cast<unsigned>(std::bit_width(value))) != count) {
      return Error(Errc::malformed, "a key in more units than it takes");
    }
    if (least + value >= entries) return Error(Errc::malformed, "a key outside of the tensor");
    key = static_cast<std::uint32_t>(least + value);
    least = std::uint64_t{key} + 1;
    bit += flag_width + count * units.unit_bits;
  }
  if ((bit + 7) / 8 != in.size() || (bit % 8 != 0 && load_word(in, bit / 8) >> (bit % 8) != 0)) {
    return Error(Errc::malformed, "keys of the wrong length");
  }
  return {};
}

}  // namespace weir::compressors
