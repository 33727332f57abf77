#include "compressors/sparsifier.hpp"

#include <algorithm>
#include <cmath>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/index_codec.hpp"
#include "compressors/value_codec.hpp"
#include "compressors/varint.hpp"

namespace weir::compressors {
namespace {

void write(const Selection& selection, std::uint32_t entries, const IndexCodec& index, const ValueCodec& value,
           Bytes& out) {
  const auto count = static_cast<std::uint32_t>(selection.size());
  const std::size_t index_bytes = index.bytes(selection.positions, entries);
  const std::size_t value_bytes = value.bytes(count);
  PayloadWriter payload(out, Format::sparse,
                        varint_bytes(entries) + varint_bytes(count) + 1 + index_bytes + value_bytes);
  const std::span<std::byte> body = payload.body();
  std::byte* at = store_varint(store_varint(body.data(), entries), count);
  *at = static_cast<std::byte>(index.id | value.id << 4);
  index.encode(selection.positions, entries, body.last(value_bytes + index_bytes).first(index_bytes));
  value.encode(selection.values, body.last(value_bytes));
  payload.seal();
}

/// Reads a payload for a tensor of `entries` entries; values only if `selection.values` is wanted. Never
/// allocates more than the payload's own bytes and `entries` justify.
Result<void> read(BytesView payload, std::uint64_t entries, bool values_wanted, Selection& selection) {
  const auto opened = open_payload(payload, Format::sparse);
  if (!opened) return opened.error();
  BytesView body = *opened;
  const auto said_entries = read_varint(body);
  const auto count = read_varint(body);
  if (!said_entries || !count || body.empty()) return Error(Errc::malformed, "a sparse payload's head is cut off");
  if (*said_entries != entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*said_entries) + " entries came for a tensor of " +
                                      std::to_string(entries));
  }
  if (*count > entries) return Error(Errc::malformed, "a payload has more entries than its tensor");
  const auto codecs = std::to_integer<std::uint8_t>(body[0]);
  body = body.subspan(1);
  const auto index = index_codec(codecs & 0x0F);
  if (!index) return index.error();
  const auto value = value_codec(codecs >> 4);
  if (!value) return value.error();
  const std::size_t value_bytes = (*value)->bytes(*count);
  if (value_bytes > body.size()) return Error(Errc::malformed, "a payload is too short for its values");
  selection.positions.resize(*count);
  const auto decoded = (*index)->decode(body.first(body.size() - value_bytes), entries, selection.positions);
  if (!decoded) return decoded.error();
  if (!values_wanted) return {};
  selection.values.resize(*count);
  (*value)->decode(body.last(value_bytes), selection.values);
  if (find_non_finite(selection.values) != selection.values.size()) {
    return Error(Errc::malformed, "a payload holds a value that is not a number");
  }
  return {};
}

}  // namespace

Result<void> Sparsifier::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const std::span<const float> values = flat(gradient);
  selection_.clear();
  if (!values.empty()) {
    const auto chosen = choose(values, round, selection_);
    if (!chosen) return chosen.error();
  }
  const auto entries = static_cast<std::uint32_t>(values.size());
  write(selection_, entries, choose_index_codec(index_codec_, selection_.positions, entries), fp32_codec, out);
  return {};
}

Result<void> Sparsifier::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  const auto got = read(payload, target.size(), true, selection_);
  if (!got) return got.error();
  for (std::size_t i = 0; i < selection_.size(); ++i) {
    target[selection_.positions[i]] += weight * selection_.values[i];
  }
  return {};
}

Result<void> Sparsifier::support(BytesView payload, std::uint64_t entries, std::vector<std::uint32_t>& positions) {
  positions.clear();
  const auto got = read(payload, entries, false, selection_);
  if (!got) return got.error();
  positions.assign(selection_.positions.begin(), selection_.positions.end());
  return {};
}

Error non_finite(const Round& round, std::span<const float> values) {
  const std::size_t at = find_non_finite(values);
  return Error(Errc::invalid_argument,
               "the gradient of tensor " + std::to_string(round.tensor) + " is " +
                   (at < values.size() && std::isinf(values[at]) ? "infinite" : "not a number") + " at entry " +
                   std::to_string(at) + " in step " + std::to_string(round.step));
}

std::size_t entries_kept(double ratio, std::uint64_t entries) {
  const auto kept = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(entries)));
  return std::clamp<std::size_t>(kept, entries > 0 ? 1 : 0, entries);
}

}  // namespace weir::compressors
