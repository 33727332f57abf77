#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// Encodes the values of a sparse payload. The size of the encoding depends only on the number of values. `id`
/// identifies the codec on the wire. If a codec rounds, the payload decodes to the rounded values, and error feedback
/// subtracts those.
struct ValueCodec {
  std::string_view name;
  std::uint8_t id;
  /// A number b such that |v - decode(encode(v))|^2 <= b |v|^2 for all vectors v whose entries are zero or normal
  /// floats; 0 if every value is decoded bit for bit. No value changes its sign or becomes infinite. The smallest
  /// values may become zero; they still count as sent.
  double error_bound;

  /// The size of the encoding of `count` values in bytes.
  std::size_t (*bytes)(std::size_t count);
  /// Fills `out`, which has bytes(values.size()) bytes.
  void (*encode)(std::span<const float> values, std::span<std::byte> out);
  /// Fills `values`; `in` has bytes(values.size()) bytes.
  void (*decode)(BytesView in, std::span<float> values);
};

extern const ValueCodec fp32_codec;  ///< value_codec.cpp: as they are
extern const ValueCodec fp16_codec;  ///< half_codec.cpp: IEEE half precision times a power of two
extern const ValueCodec bf16_codec;  ///< half_codec.cpp: bfloat16
extern const ValueCodec int8_codec;  ///< level_codec.cpp: a sign and one of 128 magnitudes
extern const ValueCodec int4_codec;  ///< level_codec.cpp: a sign and one of 8 magnitudes
extern const ValueCodec int2_codec;  ///< level_codec.cpp: a sign and one of 2 magnitudes

/// Every codec, in the order of their ids.
std::span<const ValueCodec* const> value_codecs();

/// The codec with that wire id. Fails with: unsupported.
Result<const ValueCodec*> value_codec(std::uint8_t id);

/// The codec with that name, which is one of value_codec_names().
const ValueCodec& value_codec_named(std::string_view name);

std::vector<std::string_view> value_codec_names();

}  // namespace weir::compressors
