#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// How a sparse payload writes its values. The length follows from their number alone. The id is what stands
/// on the wire. A codec that rounds makes the payload decode to the rounded values, which is what a memory
/// then takes off.
struct ValueCodec {
  std::string_view name;
  std::uint8_t id;

  std::size_t (*bytes)(std::size_t count);
  /// Fills `out`, which has bytes(values.size()) bytes.
  void (*encode)(std::span<const float> values, std::span<std::byte> out);
  /// Fills `values`; `in` has bytes(values.size()) bytes.
  void (*decode)(BytesView in, std::span<float> values);
};

extern const ValueCodec fp32_codec;

/// By wire id. Fails with: unsupported.
Result<const ValueCodec*> value_codec(std::uint8_t id);

}  // namespace weir::compressors
