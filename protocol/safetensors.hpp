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

/// What a file's header says of one of its tensors.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  ///< of its data in the file, in bytes
  std::uint64_t bytes = 0;
};

/// A file's header: everything but the data.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  ///< in the order of their data
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

/// The bytes before the data, of an untrusted file with `file_bytes` that begins with `beginning`, of which the first 8
/// count. Fails with: malformed.
Result<std::uint64_t> safetensors_header_bytes(BytesView beginning, std::uint64_t file_bytes);

/// Reads the header of an untrusted file of which `beginning`, its first safetensors_header_bytes(), is given: every
/// length is checked, and the data must be exactly covered by the tensors. Fails with: as read_safetensors().
Result<SafetensorsHeader> read_safetensors_header(BytesView beginning, std::uint64_t file_bytes);

/// Reads an untrusted file: every length is checked before it is used, and the data must be exactly covered by the
/// tensors. Nothing is copied. Fails with: malformed, unsupported (a dtype that this build does not know).
Result<Safetensors> read_safetensors(Segment file);

/// Writes the bytes before the data of a file with these tensors, whose data follow in the order given. Their offsets
/// are not used. Fails with: invalid_argument (a name twice or reserved, bytes that do not fit the shape, or a header
/// that would be too long to be read).
Result<Bytes> write_safetensors_header(const std::map<std::string, std::string>& metadata,
                                       std::span<const TensorEntry> tensors);

/// A file to be written: the bytes before the data, and the data, which are views of the tensors'.
struct SafetensorsPieces {
  Bytes header;
  std::vector<BytesView> data;

  Bytes whole() const;
};

/// A tensor whose data lie in several places. The entry's offset is not used.
struct ScatteredTensor {
  TensorEntry entry;
  std::vector<BytesView> data;
};

/// Lays a file out: the largest element type first, so that each tensor is aligned, then by name. Equal contents give
/// equal bytes. Fails with: as write_safetensors_header().
Result<SafetensorsPieces> lay_out_safetensors(const std::map<std::string, std::string>& metadata,
                                              std::vector<ScatteredTensor> tensors);

/// A file of tensors that lie in one place each, laid out like this, in one piece. Fails with: as
/// write_safetensors_header().
Result<Bytes> write_safetensors(const std::map<std::string, std::string>& metadata,
                                std::span<const StoredTensor> tensors);

}  // namespace weir::protocol
