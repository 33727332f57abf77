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
  /// A b such that |v - decode(encode(v))|^2 <= b |v|^2 for all values v that lie in the range of normal numbers.
  double error_bound;

  std::size_t (*bytes)(std::size_t count);
  /// Fills `out`, which has bytes(values.size()) bytes.
  void (*encode)(std::span<const float> values, std::span<std::byte> out);
  /// Fills `values`; `in` has bytes(values.size()) bytes.
  void (*decode)(BytesView in, std::span<float> values);
};

extern const ValueCodec fp32_codec;

/// Every codec, in the order of their ids.
std::span<const ValueCodec* const> value_codecs();

/// By wire id. Fails with: unsupported.
Result<const ValueCodec*> value_codec(std::uint8_t id);

/// By a name that is one of value_codec_names().
const ValueCodec& value_codec_named(std::string_view name);

std::vector<std::string_view> value_codec_names();

}  // namespace weir::compressors
