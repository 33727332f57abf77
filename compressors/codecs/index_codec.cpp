#include "compressors/codecs/index_codec.hpp"

#include <array>
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

std::vector<std::string_view> index_codec_names() {
  std::vector<std::string_view> names = {"auto"};
  for (const IndexCodec* codec : index_codecs()) names.push_back(codec->name);
  return names;
}

}  // namespace weir::compressors
