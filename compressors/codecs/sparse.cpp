#include "compressors/codecs/sparse.hpp"

#include <algorithm>
#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"

namespace weir::compressors {

void write_sparse(const Selection& selection, std::uint32_t entries, const IndexCodec& index, const ValueCodec& value,
                  Bytes& out) {
  write_sparse(selection, {Format::sparse, entries, entries}, index, value, out);
}

Result<void> read_sparse(BytesView payload, std::uint64_t entries, Selection& selection) {
  const auto all = static_cast<std::uint32_t>(std::min<std::uint64_t>(entries, 0xFFFF'FFFF));
  return read_sparse(payload, {Format::sparse, all, all}, selection);
}

void write_part(Selection& selection, std::uint32_t entries, const SparseCodecs& codecs, Bytes& out,
                const PartLoop& for_each_part) {
  const ValueCodec& value = value_codec_named(codecs.value);
  write_sparse(selection, {Format::sparse, entries, entries},
               choose_index_codec(codecs.index, selection.positions, entries), value, out, for_each_part);
  if (value.error_bound > 0) value.decode(BytesView(out).last(value.bytes(selection.size())), selection.values);
}

void write_sparse(const Selection& selection, const SparseExtent& extent, const IndexCodec& index,
                  const ValueCodec& value, Bytes& out, const PartLoop& for_each_part) {
  const auto count = static_cast<std::uint32_t>(selection.size());
  const std::size_t index_bytes = index.bytes(selection.positions, extent.positions);
  const std::size_t value_bytes = value.bytes(count);
  PayloadWriter payload(out, extent.format,
                        varint_bytes(extent.entries) + varint_bytes(count) + 1 + index_bytes + value_bytes);
  const std::span<std::byte> body = payload.body();
  std::byte* at = store_varint(store_varint(body.data(), extent.entries), count);
  *at = static_cast<std::byte>(index.id | value.id << 4);
  const std::span<std::byte> positions = body.last(value_bytes + index_bytes).first(index_bytes);
  for_each_part(2, [&](std::size_t part) {
    if (part == 0) {
      index.encode(selection.positions, extent.positions, positions);
    } else {
      value.encode(selection.values, body.last(value_bytes));
    }
  });
  payload.seal();
}

Result<void> read_sparse(BytesView payload, const SparseExtent& extent, Selection& selection) {
  const auto opened = open_payload(payload, extent.format);
  if (!opened) return opened.error();
  BytesView body = *opened;
  const auto said_entries = read_varint(body);
  const auto count = read_varint(body);
  if (!said_entries || !count || body.empty()) return Error(Errc::malformed, "a sparse payload's head is cut off");
  if (*said_entries != extent.entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*said_entries) + " entries came for a tensor of " +
                                      std::to_string(extent.entries));
  }
  if (*count > extent.positions) return Error(Errc::malformed, "a payload has more entries than its tensor");
  const auto codecs = std::to_integer<std::uint8_t>(body[0]);
  body = body.subspan(1);
  const auto index = index_codec(codecs & 0x0F);
  if (!index) return index.error();
  const auto value = value_codec(codecs >> 4);
  if (!value) return value.error();
  const std::size_t value_bytes = (*value)->bytes(*count);
  if (value_bytes > body.size()) return Error(Errc::malformed, "a payload is too short for its values");
  selection.positions.resize(*count);
  const auto decoded = (*index)->decode(body.first(body.size() - value_bytes), extent.positions, selection.positions);
  if (!decoded) return decoded.error();
  selection.values.resize(*count);
  (*value)->decode(body.last(value_bytes), selection.values);
  if (find_non_finite(selection.values) != selection.values.size()) {
    return Error(Errc::malformed, "a payload holds a value that is not a number");
  }
  return {};
}

}  // namespace weir::compressors
