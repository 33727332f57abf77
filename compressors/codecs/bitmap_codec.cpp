#include <algorithm>
#include <bit>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/fields.hpp"
#include "compressors/codecs/index_codec.hpp"

// One bit for each entry of the tensor, set if the entry is sent, least significant bit first; unused bits are zero.
// Empty if nothing is sent. The shortest codec if about one entry in four or more is sent.

namespace weir::compressors {
namespace {

std::size_t bitmap_bytes(std::span<const std::uint32_t> positions, std::uint64_t entries) {
  return positions.empty() ? 0 : (entries + 7) / 8;
}

void bitmap_encode(std::span<const std::uint32_t> positions, std::uint64_t entries, std::span<std::byte> out) {
  ensure(out.size() == bitmap_bytes(positions, entries), "room for a bitmap of positions");
  std::ranges::fill(out, std::byte{0});
  for (const std::uint32_t position : positions) out[position / 8] |= static_cast<std::byte>(1u << (position % 8));
}

Result<void> bitmap_decode(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions) {
  if (in.size() != bitmap_bytes(positions, entries)) return Error(Errc::malformed, "a bitmap of the wrong length");
  std::size_t found = 0;
  for (std::size_t at = 0; at < in.size(); at += 8) {
    for (std::uint64_t word = load_word(in, at); word != 0; word &= word - 1) {
      const std::uint64_t position = at * 8 + static_cast<unsigned>(std::countr_zero(word));
      if (found == positions.size() || position >= entries) {
        return Error(Errc::malformed, "a bitmap has more positions than announced");
      }
      positions[found++] = static_cast<std::uint32_t>(position);
    }
  }
  if (found != positions.size()) return Error(Errc::malformed, "a bitmap has fewer positions than announced");
  return {};
}

}  // namespace

constexpr IndexCodec bitmap_codec{"bitmap", 4, 1, bitmap_bytes, bitmap_encode, bitmap_decode};

}  // namespace weir::compressors
