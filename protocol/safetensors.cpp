#include "protocol/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/json_text.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array dtypes{
    DtypeRow{Dtype::boolean, "BOOL", 1}, DtypeRow{Dtype::u8, "U8", 1},   DtypeRow{Dtype::i8, "I8", 1},
    DtypeRow{Dtype::u16, "U16", 2},      DtypeRow{Dtype::i16, "I16", 2}, DtypeRow{Dtype::f16, "F16", 2},
    DtypeRow{Dtype::bf16, "BF16", 2},    DtypeRow{Dtype::u32, "U32", 4}, DtypeRow{Dtype::i32, "I32", 4},
    DtypeRow{Dtype::f32, "F32", 4},      DtypeRow{Dtype::u64, "U64", 8}, DtypeRow{Dtype::i64, "I64", 8},
    DtypeRow{Dtype::f64, "F64", 8}};

constexpr std::size_t length_bytes = 8;
constexpr std::size_t dimensions_max = 16;
constexpr std::string_view metadata_key = "__metadata__";

Error malformed(std::string what) { return {Errc::malformed, "safetensors: " + std::move(what)}; }

std::uint64_t load_u64(BytesView bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = length_bytes; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

/// Bytes of a tensor of that shape, or nothing if no memory could hold it. That is so for an empty one, too, if its
/// other extents are too large together: who makes a tensor of it counts in signed numbers.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const std::vector<std::uint64_t>& shape) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  bool empty = false;
  for (const auto extent : shape) {
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

Result<json> parse_header(BytesView text) {
  auto header = parse_json_text({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!header) return malformed("the header " + header.error().context);
  if (!header->is_object()) return malformed("the header is not a JSON object");
  return header;
}

Result<std::vector<std::uint64_t>> read_numbers(const json& entry, const char* key, std::size_t count_max) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array() || found->size() > count_max) {
    return malformed(std::string("no usable ") + key);
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& number : *found) {
    if (!number.is_number_unsigned()) return malformed(std::string("a number of ") + key + " is not whole");
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Result<TensorEntry> read_entry(const std::string& name, const json& entry, std::uint64_t data_begin,
                               std::uint64_t file_bytes) {
  if (!entry.is_object()) return malformed("the entry is not an object");
  const auto type = entry.find("dtype");
  if (type == entry.end() || !type->is_string()) return malformed("no dtype");
  const auto row = std::ranges::find(dtypes, type->get_ref<const std::string&>(), &DtypeRow::name);
  if (row == dtypes.end()) return Error{Errc::unsupported, "safetensors: unknown dtype " + type->dump()};

  auto shape = read_numbers(entry, "shape", dimensions_max);
  if (!shape) return shape.error();
  auto offsets = read_numbers(entry, "data_offsets", 2);
  if (!offsets) return offsets.error();
  if (offsets->size() != 2) return malformed("data_offsets needs two numbers");
  const auto [begin, end] = std::pair{(*offsets)[0], (*offsets)[1]};
  if (begin > end || end > file_bytes - data_begin) return malformed("data_offsets lie outside the file");
  if (bytes_of(row->dtype, *shape) != end - begin) return malformed("data_offsets do not fit the shape");
  return TensorEntry{name, row->dtype, std::move(*shape), data_begin + begin, end - begin};
}

Result<std::map<std::string, std::string>> read_metadata(const json& entry) {
  if (!entry.is_object()) return malformed("__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return malformed("__metadata__ holds something that is not text");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

Result<void> check_covered(const std::vector<TensorEntry>& in_order, std::uint64_t data_begin,
                           std::uint64_t file_bytes) {
  std::uint64_t next = data_begin;
  for (const auto& tensor : in_order) {
    if (tensor.offset != next) return malformed("tensors overlap or leave a hole before " + tensor.name);
    next += tensor.bytes;
  }
  if (next != file_bytes) return malformed("bytes after the last tensor");
  return {};
}

}  // namespace

std::size_t size_of(Dtype dtype) { return std::ranges::find(dtypes, dtype, &DtypeRow::dtype)->size; }
std::string_view name_of(Dtype dtype) { return std::ranges::find(dtypes, dtype, &DtypeRow::dtype)->name; }

const StoredTensor* Safetensors::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<std::uint64_t> safetensors_header_bytes(BytesView beginning, std::uint64_t file_bytes) {
  if (beginning.size() < length_bytes) return malformed("shorter than its length field");
  const auto header_bytes = load_u64(beginning);
  if (header_bytes > safetensors_header_bytes_max) return malformed("the header is longer than 16 MiB");
  if (file_bytes < length_bytes || header_bytes > file_bytes - length_bytes) {
    return malformed("the file ends within the header");
  }
  return length_bytes + header_bytes;
}

Result<SafetensorsHeader> read_safetensors_header(BytesView beginning, std::uint64_t file_bytes) {
  const auto data_begin = safetensors_header_bytes(beginning, file_bytes);
  if (!data_begin) return data_begin.error();
  ensure(beginning.size() >= *data_begin, "the whole header is there");
  auto header = parse_header(beginning.subspan(length_bytes, *data_begin - length_bytes));
  if (!header) return header.error();

  SafetensorsHeader result;
  for (const auto& [name, entry] : header->items()) {
    if (name == metadata_key) {
      auto metadata = read_metadata(entry);
      if (!metadata) return metadata.error();
      result.metadata = std::move(*metadata);
      continue;
    }
    auto tensor = read_entry(name, entry, *data_begin, file_bytes);
    if (!tensor) return tensor.error().within("tensor '" + name + "'");
    result.tensors.push_back(std::move(*tensor));
  }
  // Empty tensors share their offset with the next one: they go first.
  std::ranges::sort(result.tensors, {}, [](const TensorEntry& tensor) {
    return std::pair{tensor.offset, tensor.bytes};
  });
  if (auto covered = check_covered(result.tensors, *data_begin, file_bytes); !covered) return covered.error();
  return result;
}

Result<Safetensors> read_safetensors(Segment file) {
  auto header = read_safetensors_header(file.bytes(), file.size());
  if (!header) return header.error();
  Safetensors result{.metadata = std::move(header->metadata), .tensors = {}, .file = std::move(file)};
  for (auto& entry : header->tensors) {
    result.tensors.push_back({.name = std::move(entry.name),
                              .dtype = entry.dtype,
                              .shape = std::move(entry.shape),
                              .bytes = result.file.bytes().subspan(entry.offset, entry.bytes)});
  }
  return result;
}

Result<Bytes> write_safetensors_header(const std::map<std::string, std::string>& metadata,
                                       std::span<const TensorEntry> tensors) {
  json header = json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name == metadata_key || header.contains(tensor.name)) {
      return Error{Errc::invalid_argument, "safetensors: the name '" + tensor.name + "' is taken"};
    }
    if (bytes_of(tensor.dtype, tensor.shape) != tensor.bytes) {
      return Error{Errc::invalid_argument, "safetensors: the bytes of '" + tensor.name + "' do not fit its shape"};
    }
    header[tensor.name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  // Invalid UTF-8 in names is replaced instead of throwing; names come from our own code.
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  while (text.size() % length_bytes != 0) text.push_back(' ');
  if (text.size() > safetensors_header_bytes_max) {
    return Error{Errc::invalid_argument, "safetensors: the header of " + std::to_string(tensors.size()) +
                                             " tensors is longer than 16 MiB, which is the most that is read"};
  }

  Bytes out;
  out.reserve(length_bytes + text.size());
  for (std::size_t i = 0; i < length_bytes; ++i) out.push_back(static_cast<std::byte>(text.size() >> (8 * i)));
  append(out, std::as_bytes(std::span(text)));
  return out;
}

Result<SafetensorsPieces> lay_out_safetensors(const std::map<std::string, std::string>& metadata,
                                              std::vector<ScatteredTensor> tensors) {
  std::ranges::sort(tensors, [](const ScatteredTensor& a, const ScatteredTensor& b) {
    return std::pair{size_of(b.entry.dtype), std::string_view(a.entry.name)} <
           std::pair{size_of(a.entry.dtype), std::string_view(b.entry.name)};
  });
  std::vector<TensorEntry> entries;
  SafetensorsPieces pieces;
  for (auto& tensor : tensors) {
    entries.push_back(std::move(tensor.entry));
    pieces.data.insert(pieces.data.end(), tensor.data.begin(), tensor.data.end());
  }
  auto header = write_safetensors_header(metadata, entries);
  if (!header) return header.error();
  pieces.header = std::move(*header);
  return pieces;
}

Bytes SafetensorsPieces::whole() const {
  std::size_t bytes = header.size();
  for (const BytesView piece : data) bytes += piece.size();
  Bytes out;
  out.reserve(bytes);
  append(out, header);
  for (const BytesView piece : data) append(out, piece);
  return out;
}

Result<Bytes> write_safetensors(const std::map<std::string, std::string>& metadata,
                                std::span<const StoredTensor> tensors) {
  std::vector<ScatteredTensor> all;
  for (const auto& tensor : tensors) {
    all.push_back({{tensor.name, tensor.dtype, tensor.shape, 0, tensor.bytes.size()}, {tensor.bytes}});
  }
  const auto pieces = lay_out_safetensors(metadata, std::move(all));
  if (!pieces) return pieces.error();
  return pieces->whole();
}

}  // namespace weir::protocol
