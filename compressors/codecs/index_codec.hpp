#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// Encodes the positions of a sparse payload. Positions ascend strictly and lie below `entries`. Both sides know how
/// many there are and `entries`: the payload's header carries them. `id` identifies the codec on the wire.
struct IndexCodec {
  std::string_view name;
  std::uint8_t id;
  unsigned bits_min;  ///< the least number of bits that a position takes

  /// The size of the encoding in bytes.
  std::size_t (*bytes)(std::span<const std::uint32_t> positions, std::uint64_t entries);
  /// Fills `out`, which has bytes() bytes.
  void (*encode)(std::span<const std::uint32_t> positions, std::uint64_t entries, std::span<std::byte> out);
  /// Fills `positions`. The bytes are untrusted: anything but the exact output of encode() is refused. Fails with:
  /// malformed.
  Result<void> (*decode)(BytesView in, std::uint64_t entries, std::span<std::uint32_t> positions);
};

extern const IndexCodec raw32_codec;       ///< raw32_codec.cpp: 32 bits each
extern const IndexCodec elias_fano_codec;  ///< elias_fano_codec.cpp: about 2 + log2(entries / count) bits each
extern const IndexCodec varint_codec;      ///< varint_codec.cpp: the gaps as varints
extern const IndexCodec rice_codec;        ///< rice_codec.cpp: the gaps by Golomb-Rice, close to entropy
extern const IndexCodec bitmap_codec;      ///< bitmap_codec.cpp: a bit for every entry of the tensor
extern const IndexCodec block_codec;       ///< block_codec.cpp: 12 or 16 bits within blocks, readable anywhere

/// Every codec, in the order of their ids.
std::span<const IndexCodec* const> index_codecs();

/// The codec with that wire id. Fails with: unsupported.
Result<const IndexCodec*> index_codec(std::uint8_t id);

/// The codec with that name; for "auto", the one whose encoding of these positions is shortest.
const IndexCodec& choose_index_codec(std::string_view name, std::span<const std::uint32_t> positions,
                                     std::uint64_t entries);

/// The expected number of bits per position of the codec with that name, if a share `share` (above 0) of all entries is
/// sent and all entries are equally likely.
double expected_position_bits(std::string_view name, double share);

/// The names that choose_index_codec() accepts.
std::vector<std::string_view> index_codec_names();

}  // namespace weir::compressors
