#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/varint.hpp"

// The number of entries skipped before each position, as a varint: 8 or 16 bits at the usual ratios, and little more
// than 8 if most gaps are short.

namespace weir::compressors {
namespace {

/// The position before the first one, such that the first gap is the first position itself.
constexpr std::uint32_t before = 0xFFFF'FFFF;

std::size_t varint_codec_bytes(std::span<const std::uint32_t> positions, std::uint64_t) {
  if (positions.empty()) return 0;
  std::size_t bytes = varint_bytes(positions[0]);
  for (std::size_t i = 1; i < positions.size(); ++i) {
    const std::uint32_t skipped = positions[i] - positions[i - 1] - 1;
    bytes += 1U + (skipped >> 7 > 0) + (skipped >> 14 > 0) + (skipped >> 21 > 0) + (skipped >> 28 > 0);
  }
  return bytes;
}

void varint_codec_encode(std::span<const std::uint32_t> positions, std::uint64_t, std::span<std::byte> out) {
  std::byte* to = out.data();
  std::uint32_t previous = before;
  for (const std::uint32_t position : positions) {
    to = store_varint(to, position - previous - 1);
    previous = position;
  }
  ensure(to == out.data() + out.size(), "room for varint positions");
}

Result<void> varint_codec_decode(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions) {
  std::uint64_t least = 0;  // the smallest value that the next position may have
  for (std::uint32_t& position : positions) {
    const auto skipped = read_varint(in);
    if (!skipped) return Error(Errc::malformed, "varint positions are cut off or not in their shortest form");
    if (*skipped >= entries || least + *skipped >= entries) {
      return Error(Errc::malformed, "positions do not lie within the tensor");
    }
    position = static_cast<std::uint32_t>(least + *skipped);
    least = std::uint64_t{position} + 1;
  }
  if (!in.empty()) return Error(Errc::malformed, "bytes behind the last position");
  return {};
}

}  // namespace

constexpr IndexCodec varint_codec{"varint", 2, 8, varint_codec_bytes, varint_codec_encode, varint_codec_decode};

}  // namespace weir::compressors
