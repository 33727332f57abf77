#include <algorithm>
#include <bit>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/fields.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/kernels/pack.hpp"

// Golomb-Rice code (Golomb 1966, Rice 1979) of the number of entries skipped before each position: the low k bits are
// written as they are, the rest in unary. For positions drawn independently, the best k follows from their share of the
// entries (Kiely 2004): within 0.1 bit of the entropy, 11.5 bits per position at one in a thousand.
//
// Layout: ceil(count * k / 8) bytes of low parts; then for each position its rest in unary, as that many zero bits and
// a one, least significant bit first; unused bits are zero.

namespace weir::compressors {
namespace {

/// k = floor(log2(0.961 * mean)), where `mean` is the mean of the encoded numbers.
unsigned low_bits_of(std::uint64_t count, std::uint64_t entries) {
  if (count == 0) return 0;
  const std::uint64_t scaled = (entries - count) * 123 / (128 * count);
  return scaled == 0 ? 0 : static_cast<unsigned>(std::bit_width(scaled)) - 1;
}

/// The position before the first one, such that the number of skipped entries is the first position itself.
constexpr std::uint32_t before = 0xFFFF'FFFF;

std::size_t unary_bytes(std::span<const std::uint32_t> positions, unsigned low_bits) {
  if (positions.empty()) return 0;
  std::uint64_t bits = positions.size() + (positions[0] >> low_bits);
  for (std::size_t i = 1; i < positions.size(); ++i) bits += (positions[i] - positions[i - 1] - 1) >> low_bits;
  return (bits + 7) / 8;
}

std::size_t rice_bytes(std::span<const std::uint32_t> positions, std::uint64_t entries) {
  const unsigned low_bits = low_bits_of(positions.size(), entries);
  return packed_bytes(positions.size(), low_bits) + unary_bytes(positions, low_bits);
}

void rice_encode(std::span<const std::uint32_t> positions, std::uint64_t entries, std::span<std::byte> out) {
  const unsigned low_bits = low_bits_of(positions.size(), entries);
  const std::size_t low_bytes = packed_bytes(positions.size(), low_bits);
  ensure(out.size() >= low_bytes, "room for Rice positions");
  FieldWriter low(out.data(), low_bits);
  BitWriter unary(out.subspan(low_bytes));
  std::uint64_t bit = 0;
  std::uint32_t previous = before;
  for (const std::uint32_t position : positions) {
    const std::uint32_t skipped = position - previous - 1;
    previous = position;
    low.add(skipped);
    bit += skipped >> low_bits;
    unary.set(bit++);
  }
  low.finish();
  unary.finish();
}

Error malformed(const char* what) { return Error(Errc::malformed, what); }

Result<void> rice_decode(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions) {
  if (positions.size() > entries) return malformed("more positions than entries");
  const unsigned low_bits = low_bits_of(positions.size(), entries);
  const std::size_t low_bytes = packed_bytes(positions.size(), low_bits);
  if (in.size() < low_bytes) return malformed("Rice positions are cut off");
  const Fields low(in.first(low_bytes), low_bits);
  const BytesView unary = in.subspan(low_bytes);
  // This keeps the sums below far from overflow.
  if (unary.size() > (positions.size() + (entries >> low_bits) + 7) / 8) return malformed("too many Rice positions");

  std::size_t found = 0;
  std::uint64_t next_bit = 0;  // the bit after the last one that was set
  std::uint64_t least = 0;     // the smallest value that the next position may have
  for (std::size_t at = 0; at < unary.size(); at += 8) {
    for (std::uint64_t word = load_word(unary, at); word != 0; word &= word - 1) {
      if (found == positions.size()) return malformed("more positions than announced");
      const std::uint64_t bit = at * 8 + static_cast<unsigned>(std::countr_zero(word));
      const std::uint64_t position = least + ((bit - next_bit) << low_bits | low[found]);
      if (position >= entries) return malformed("positions do not lie within the tensor");
      positions[found++] = static_cast<std::uint32_t>(position);
      least = position + 1;
      next_bit = bit + 1;
    }
  }
  if (found != positions.size()) return malformed("fewer positions than announced");
  if (unary.size() != (next_bit + 7) / 8) return malformed("bytes behind the last position");
  if (!padding_is_zero(in, found, low_bits)) return malformed("bits behind the last position");
  return {};
}

}  // namespace

constexpr IndexCodec rice_codec{"rice", 3, 1, rice_bytes, rice_encode, rice_decode};

}  // namespace weir::compressors
