#include "compressors/codecs/index_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::compressors {

std::span<const IndexCodec* const> index_codecs() {
  static constexpr std::array codecs = {&raw32_codec, &elias_fano_codec, &varint_codec,
                                        &rice_codec,  &bitmap_codec,     &block_codec};
  return codecs;
}

Result<const IndexCodec*> index_codec(std::uint8_t id) {
  for (const IndexCodec* codec : index_codecs()) {
    if (codec->id == id) return codec;
  }
  return Error(Errc::unsupported, "index codec " + std::to_string(id) + " is not known to this build");
}

const IndexCodec& choose_index_codec(std::string_view name, std::span<const std::uint32_t> positions,
                                     std::uint64_t entries) {
  const IndexCodec* best = nullptr;
  std::size_t best_bytes = 0;
  for (const IndexCodec* codec : index_codecs()) {
    if (name != "auto" && name != codec->name) continue;
    if (best != nullptr && codec->bits_min * positions.size() >= 8 * best_bytes) continue;
    const std::size_t bytes = codec->bytes(positions, entries);
    if (best == nullptr || bytes < best_bytes) best = codec, best_bytes = bytes;
  }
  ensure(best != nullptr, "an index codec's name was not validated");
  return *best;
}

double expected_position_bits(std::string_view name, double share) {
  const double distance = 1 / share;
  // The share of positions that skip at least this many entries.
  const auto skipping = [&](double entries) { return std::pow(1 - share, entries); };
  if (name == raw32_codec.name) return 32;
  if (name == bitmap_codec.name) return distance;
  if (name == varint_codec.name) return 8 * (1 + skipping(0x1p7) + skipping(0x1p14) + skipping(0x1p21));
  // Offsets, and a count of about four bits for each block of 4096.
  if (name == block_codec.name) return std::min(12 + 4 * distance / 4096, 16.0);
  if (name == elias_fano_codec.name) {
    const double low = std::floor(std::log2(distance));
    return low + 1 + distance / std::exp2(low);
  }
  if (name == rice_codec.name) {
    const double low = std::max(0.0, std::floor(std::log2(std::max(0.961 * (distance - 1), 1.0))));
    const double rest = skipping(std::exp2(low));
    return low + 1 + rest / (1 - rest);
  }
  ensure(name == "auto", "an index codec's name was not validated");
  double best = 32;
  for (const IndexCodec* codec : index_codecs()) best = std::min(best, expected_position_bits(codec->name, share));
  return best;
}

std::vector<std::string_view> index_codec_names() {
  std::vector<std::string_view> names = {"auto"};
  for (const IndexCodec* codec : index_codecs()) names.push_back(codec->name);
  return names;
}

}  // namespace weir::compressors
