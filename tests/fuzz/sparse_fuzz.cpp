#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/codecs/counts.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/codecs/varint.hpp"

namespace {

using namespace weir;
using namespace weir::compressors;

/// The body under a good header and checksum, which a search would hardly find by itself.
Bytes sealed(Format format, BytesView body) {
  Bytes out;
  PayloadWriter writer(out, format, body.size());
  std::ranges::copy(body, writer.body().begin());
  writer.seal();
  return out;
}

/// The same, for the right tensor.
Bytes sealed(std::uint32_t entries, BytesView rest) {
  Bytes body;
  append_varint(body, entries);
  body.insert(body.end(), rest.begin(), rest.end());
  return sealed(Format::sparse, body);
}

/// A payload is refused, or it is the very bytes that its selection is written as. Where values are rounded, they may
/// be written as others of the same length, which are read back at the same positions.
void read(BytesView payload, std::uint32_t entries) {
  Selection selection;
  if (!read_sparse(payload, entries, selection)) return;
  ensure(selection.values.size() == selection.size(), "a value for each position");
  for (std::size_t i = 0; i < selection.size(); ++i) {
    ensure(selection.positions[i] < entries, "a position outside of the tensor");
    ensure(i == 0 || selection.positions[i - 1] < selection.positions[i], "positions that do not ascend");
  }
  BytesView body = open_payload(payload, Format::sparse).value();
  (void)read_varint(body);
  (void)read_varint(body);
  const auto codecs = std::to_integer<std::uint8_t>(body[0]);
  const ValueCodec& value = *value_codec(codecs >> 4).value();
  Bytes again;
  write_sparse(selection, entries, *index_codec(codecs & 0x0F).value(), value, again);
  if (value.error_bound == 0) {
    ensure(std::ranges::equal(payload, again), "two payloads for one selection");
  } else {
    Selection reread;
    ensure(again.size() == payload.size() && read_sparse(again, entries, reread).has_value(),
           "a selection that was read cannot be written");
    ensure(reread.positions == selection.positions, "two lists of positions for one selection");
  }
}

/// Counts are refused, or are the very bytes that they are written as.
void read_as_counts(BytesView payload, std::size_t count) {
  std::vector<std::uint64_t> counts(count);
  if (!read_counts(payload, counts)) return;
  Bytes again;
  write_counts(counts, again);
  ensure(std::ranges::equal(payload, again), "two payloads for the same counts");
}

}  // namespace

/// Four bytes give the size of the tensor, or how many counts there are; the rest is read as it is, and as the body of
/// a good payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t entries;
  if (size < sizeof entries) return 0;
  std::memcpy(&entries, data, sizeof entries);
  const BytesView bytes = std::as_bytes(std::span(data, size)).subspan(sizeof entries);
  BytesView stream = bytes;
  while (const auto payload = take_payload(stream)) ensure(!payload->empty(), "no progress");
  read(bytes, entries);
  read(sealed(entries, bytes), entries);
  read_as_counts(bytes, entries % 8);
  read_as_counts(sealed(Format::counts, bytes), entries % 8);
  return 0;
}
