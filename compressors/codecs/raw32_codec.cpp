#include <cstring>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/index_codec.hpp"

namespace weir::compressors {
namespace {

std::size_t raw32_bytes(std::span<const std::uint32_t> positions, std::uint64_t) { return positions.size_bytes(); }

void raw32_encode(std::span<const std::uint32_t> positions, std::uint64_t, std::span<std::byte> out) {
  ensure(out.size() == positions.size_bytes(), "room for raw positions");
  if (!positions.empty()) std::memcpy(out.data(), positions.data(), out.size());
}

Result<void> raw32_decode(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions) {
  if (in.size() != positions.size_bytes()) return Error(Errc::malformed, "raw positions of the wrong length");
  if (!positions.empty()) std::memcpy(positions.data(), in.data(), in.size());
  std::uint64_t least = 0;  // the smallest value that the next position may have
  for (const std::uint32_t position : positions) {
    if (position < least || position >= entries) {
      return Error(Errc::malformed, "positions do not ascend within the tensor");
    }
    least = std::uint64_t{position} + 1;
  }
  return {};
}

}  // namespace

constexpr IndexCodec raw32_codec{"raw32", 0, 32, raw32_bytes, raw32_encode, raw32_decode};

}  // namespace weir::compressors
