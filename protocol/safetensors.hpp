#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::protocol {

/// Element types that safetensors files may hold, under the format's own names (F32, BF16, ...).
enum class Dtype : std::uint8_t { boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

/// Bytes of one element.
std::size_t size_of(Dtype dtype);
std::string_view name_of(Dtype dtype);

/// One tensor of a file: little-endian, row-major. `bytes` is owned by the creator of this object.
struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
  BytesView bytes;
};

/// A safetensors file in memory (https://huggingface.co/docs/safetensors):
///   u64 header bytes | JSON header | data of all tensors, one after another, without holes.
struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  ///< in the order of their data; views into `file`
  Segment file;

  /// The tensor of that name, or null.
  const StoredTensor* find(std::string_view name) const;
};

/// The longest JSON header that is accepted.
inline constexpr std::uint64_t safetensors_header_bytes_max = 16 << 20;

/// Reads an untrusted file: every length is checked before it is used, and the data must be exactly covered by the
/// tensors. Nothing is copied. Fails with: malformed, unsupported (a dtype that this build does not know).
Result<Safetensors> read_safetensors(Segment file);

/// Writes the tensors, largest element type first so that each is aligned, then by name: equal contents give
/// equal bytes. Fails with: invalid_argument (a name twice or reserved, or bytes that do not fit the shape).
Result<Bytes> write_safetensors(const std::map<std::string, std::string>& metadata,
                                std::span<const StoredTensor> tensors);

}  // namespace weir::protocol
