#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// How a sparse payload writes its values. The length follows from their number alone. The id is what stands
/// on the wire. A codec that rounds makes the payload decode to the rounded values, which is what a memory
/// then takes off.
struct ValueCodec {
  std::string_view name;
  std::uint8_t id;
  /// A b such that |v - decode(encode(v))|^2 <= b |v|^2 for all finite values v that are zero or lie in the range of
  /// normal numbers; 0 if all values come back bit for bit. No value changes its sign or grows to infinity, but the
  /// smallest may become zero: they count as sent all the same.
  double error_bound;

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

/// By wire id. Fails with: unsupported.
Result<const ValueCodec*> value_codec(std::uint8_t id);

/// By a name that is one of value_codec_names().
const ValueCodec& value_codec_named(std::string_view name);

std::vector<std::string_view> value_codec_names();

}  // namespace weir::compressors
