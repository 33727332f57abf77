#include "compressors/sketches/sketchml.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sketches/delta_keys.hpp"
#include "compressors/sketches/min_max_sketch.hpp"
#include "compressors/sketches/quantile_groups.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "compressors/values.hpp"

namespace weir::compressors {
namespace {

constexpr std::uint64_t buckets_max = 256;
constexpr std::int64_t rows_max = 8;
constexpr std::size_t work_per_entry = 16;  // writing an entry takes as long as reading this many

using Group = QuantileGroups::Group;

unsigned cell_bits(std::uint64_t buckets) { return static_cast<unsigned>(std::bit_width(buckets - 1)); }

/// The most bits that a body may have if `sent` of `entries` entries are sent. Beside the groups and buckets of the
/// parameters there is one more if a sign's part of them is less than one, and one for the largest entry of each sign.
/// A gap of g takes at most 1.5 (2 + log2(1 + g)) bits, in units of two bits with unary flags; the sum of 1 + g over a
/// group is at most the number of entries, so that equal gaps in equal groups take most.
double body_bits_max(std::uint64_t entries, std::size_t sent, const SketchMl::Options& options) {
  const auto keys = static_cast<double>(sent);
  const std::size_t groups = std::min(sent, static_cast<std::size_t>(options.groups) + 3);
  const std::size_t buckets = std::min(sent, static_cast<std::size_t>(options.buckets) + 3);
  const double key_bits = keys * 1.5 * (2 + std::log2(static_cast<double>(entries * groups) / keys));
  const std::size_t head_bytes = varint_bytes(entries) + 2;
  // Two bytes say how many buckets there are, one is the code of the keys, and one rounds them up.
  const std::size_t group_bytes = 4 + varint_bytes(sent) + varint_bytes(6 * sent);
  double bits = key_bits + 8.0 * static_cast<double>(head_bytes + groups * group_bytes + buckets * sizeof(float));
  // Rounding down a sign's part of the groups leaves at most twice as many buckets for each of them.
  const auto in_group = static_cast<std::size_t>((2 * options.buckets + options.groups - 1) / options.groups);
  const unsigned cell = cell_bits(std::min({in_group, buckets, std::size_t{buckets_max}}));
  if (cell == 0) return bits;
  const double columns = options.columns * keys + static_cast<double>(groups);
  bits += 8.0 * static_cast<double>(groups * (1 + varint_bytes(static_cast<std::uint64_t>(columns))));
  return bits + static_cast<double>(options.rows) * columns * cell;
}

void append_group(const Group& group, const SketchMl::Options& options, Bytes& out) {
  append_varint(out, group.values.size());
  append(out, std::as_bytes(std::span(group.values)));
  append_varint(out, group.keys.size());
  const DeltaCode code = DeltaCode::shortest(group.keys);
  out.push_back(std::byte{code.id});
  append_varint(out, code.bytes);
  append_delta_keys(group.keys, code, out);
  if (group.values.size() == 1) return;
  const auto columns =
      static_cast<std::uint32_t>(std::ceil(std::min(options.columns * static_cast<double>(group.keys.size()), 0x1p31)));
  thread_local MinMaxSketch sketch;  // kept between calls to reuse its memory
  sketch.reset(static_cast<std::uint32_t>(options.rows), columns, static_cast<std::uint8_t>(group.values.size() - 1));
  for (std::size_t i = 0; i < group.keys.size(); ++i) sketch.insert(group.keys[i], group.buckets[i]);
  append_varint(out, columns);
  const unsigned bits = cell_bits(group.values.size());
  out.resize(out.size() + packed_bytes(sketch.cells().size(), bits));
  pack(sketch.cells(), bits, std::span(out).last(packed_bytes(sketch.cells().size(), bits)));
}

Error malformed(const char* what) { return Error(Errc::malformed, std::string("sketchml: ") + what); }

/// Removes `count` bytes from the front of `in` and returns them; nothing if there are fewer.
std::optional<BytesView> take(BytesView& in, std::uint64_t count) {
  if (count > in.size()) return std::nullopt;
  const BytesView taken = in.first(count);
  in = in.subspan(count);
  return taken;
}

/// True if the values have one sign, are finite and not zero, and their magnitudes ascend.
bool are_buckets(std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (magnitude(values[i]) == 0 || magnitude(values[i]) >= magnitude_infinite) return false;
    if (i > 0 &&
        (std::signbit(values[i]) != std::signbit(values[0]) || magnitude(values[i]) <= magnitude(values[i - 1]))) {
      return false;
    }
  }
  return true;
}

/// Reads one group and appends its entries to `out`. `seen` has a bit for each entry of the tensor, set for those that
/// other groups had.
Result<void> read_group(BytesView& body, std::uint8_t rows, std::uint64_t entries, std::span<std::uint64_t> seen,
                        Selection& out) {
  const auto buckets = read_varint(body);
  if (!buckets || *buckets == 0 || *buckets > buckets_max) return malformed("a group without buckets, or of too many");
  const auto value_bytes = take(body, *buckets * sizeof(float));
  const auto keys = read_varint(body);
  const auto code = take(body, 1);
  const auto key_bytes = read_varint(body);
  if (!value_bytes || !keys || !code || !key_bytes) return malformed("a group is cut off");
  std::array<float, buckets_max> room;
  const std::span<float> values = std::span(room).first(*buckets);
  std::ranges::copy(*value_bytes, std::as_writable_bytes(values).begin());
  if (!are_buckets(values)) return malformed("a group's values are not those of its buckets");
  const auto key_code = take(body, *key_bytes);
  if (!key_code || *keys == 0 || *keys > entries || delta_bytes_min(*keys) > *key_bytes) {
    return malformed("a group's keys are cut off");
  }
  const std::size_t before = out.size();
  out.positions.resize(before + *keys);
  const auto positions = std::span(out.positions).subspan(before);
  if (auto got = read_delta_keys(*key_code, std::to_integer<std::uint8_t>((*code)[0]), entries, positions); !got) {
    return got;
  }
  for (const std::uint32_t position : positions) {
    std::uint64_t& word = seen[position / 64];
    const std::uint64_t bit = std::uint64_t{1} << position % 64;
    if (word & bit) return malformed("an entry in two groups");
    word |= bit;
  }
  if (*buckets == 1) {
    out.values.resize(out.positions.size(), values[0]);
    return {};
  }
  const unsigned bits = cell_bits(*buckets);
  const auto columns = read_varint(body);
  if (!columns || *columns == 0) return malformed("a sketch without columns");
  const auto cells = take(body, packed_bytes(*columns * rows, bits));
  if (!cells || *columns > 0xFFFFFFFF) return malformed("a sketch is cut off");
  thread_local MinMaxSketch sketch;  // kept between calls to reuse its memory
  sketch.reset(rows, static_cast<std::uint32_t>(*columns), 0);
  unpack(*cells, bits, sketch.cells());
  if (std::ranges::any_of(sketch.cells(), [&](std::uint8_t cell) { return cell >= *buckets; }) ||
      !padding_is_zero(*cells, sketch.cells().size(), bits)) {
    return malformed("a sketch of buckets that are not there");
  }
  out.values.resize(out.positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    out.values[before + i] = values[sketch.query(positions[i])];
  }
  return {};
}

Result<void> read_groups(BytesView payload, std::uint64_t entries, std::span<std::uint64_t> seen, Selection& out) {
  const auto opened = open_payload(payload, Format::quantile);
  if (!opened) return opened.error();
  BytesView body = *opened;
  const auto said_entries = read_varint(body);
  const auto rows = take(body, 1);
  const auto groups = read_varint(body);
  if (!said_entries || !rows || !groups) return malformed("the head is cut off");
  if (*said_entries != entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*said_entries) + " entries came for a tensor of " +
                                      std::to_string(entries));
  }
  const auto rows_count = std::to_integer<std::uint8_t>((*rows)[0]);
  if (rows_count == 0 || rows_count > rows_max) return malformed("sketches without rows, or of too many");
  for (std::uint64_t i = 0; i < *groups; ++i) {
    if (auto got = read_group(body, rows_count, entries, seen, out); !got) return got;
  }
  if (!body.empty()) return malformed("bytes behind the last group");
  return {};
}

/// Reads a payload's entries, group by group.
Result<void> read(BytesView payload, std::uint64_t entries, Selection& out) {
  thread_local std::vector<std::uint64_t> seen;  // zero between calls
  seen.resize(std::max<std::size_t>(seen.size(), (entries + 63) / 64));
  out.clear();
  auto got = read_groups(payload, entries, seen, out);
  // Faster than starting with zeros, which would have to be written for the whole tensor.
  for (const std::uint32_t position : out.positions) seen[position / 64] = 0;
  return got;
}

}  // namespace

protocol::Params<SketchMl::Options> SketchMl::params() {
  return protocol::Params<Options>()
      .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
              "Share of the entries that is sent.")
      .integer("buckets", &Options::buckets, {.minimum = 2.0, .maximum = double{buckets_max}},
               "Buckets of the values of both signs together.")
      .integer("groups", &Options::groups, {.minimum = 1.0, .maximum = 64.0}, "Groups of buckets, a sketch for each.")
      .integer("rows", &Options::rows, {.minimum = 1.0, .maximum = double{rows_max}}, "Rows of a sketch.")
      .number("columns", &Options::columns, {.exclusive_minimum = 0.0, .maximum = 8.0},
              "Columns of a sketch, as a share of the entries in its group.");
}

std::optional<WireBits> SketchMl::expected_bits(at::IntArrayRef shape, const Round&) const {
  constexpr double float_bits = 32;
  const std::uint64_t entries = entries_of(shape);
  if (entries == 0) return std::nullopt;
  const double most =
      body_bits_max(entries, entries_kept(options_.ratio, entries), options_) / static_cast<double>(entries);
  return most > float_bits ? std::optional(WireBits{.gathered = most}) : std::nullopt;
}

double SketchMl::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

Result<void> SketchMl::do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  chosen.clear();
  if (gradient.numel() == 0) return {};
  const std::size_t kept = entries_kept(options_.ratio, static_cast<std::uint64_t>(gradient.numel()));
  auto done = gradient.is_cpu() ? HostValues(flat(gradient), round.peaks).select_largest(kept, chosen)
                                : device::DeviceValues(gradient, round.bins).select_largest(kept, chosen);
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (done && find_non_finite(chosen.values) != chosen.size()) return non_finite(round, gradient);
  return done;
}

Result<void> SketchMl::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto chosen = do_select(gradient, round, selection_); !chosen) return chosen;
  write(selection_, static_cast<std::uint64_t>(gradient.numel()), out);
  return {};
}

void SketchMl::write(const Selection& selection, std::uint64_t entries, Bytes& out) {
  groups_.assign(selection, static_cast<std::size_t>(options_.buckets), static_cast<std::size_t>(options_.groups));
  const std::size_t groups = groups_.size();
  if (parts_.size() < groups) parts_.resize(groups);
  const std::span parts = std::span(parts_).first(groups);
  const std::size_t work = work_per_entry * selection.size() / std::max<std::size_t>(groups, 1);
  parallel_for_parts(groups, work, [&](std::size_t i) {
    parts[i].clear();
    append_group(groups_[i], options_, parts[i]);
  });
  std::size_t bytes = varint_bytes(entries) + 1 + varint_bytes(groups);
  for (const Bytes& part : parts) bytes += part.size();
  PayloadWriter payload(out, Format::quantile, bytes);
  std::byte* at = store_varint(payload.body().data(), entries);
  *at++ = static_cast<std::byte>(options_.rows);
  at = store_varint(at, groups);
  for (const Bytes& part : parts) at = std::ranges::copy(part, at).out;
  payload.seal();
}

void SketchMl::write_part(Selection& chosen, std::uint32_t entries, Bytes& out) {
  const std::size_t before = out.size();
  write(chosen, entries, out);
  const auto read = read_part(BytesView(out).subspan(before), entries, chosen);
  ensure(read.has_value(), "a payload that was just written can be read");
}

Result<void> SketchMl::read_part(BytesView payload, std::uint32_t entries, Selection& out) {
  if (auto got = read(payload, entries, out); !got) return got;
  sort_by_position(out);
  return {};
}

Result<void> SketchMl::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  if (auto got = read(payload, target.size(), read_); !got) return got;
  add_selection(weight, read_, target);
  return {};
}

Result<void> SketchMl::read_entries(BytesView payload, const Round&, std::uint64_t entries, Selection& out) const {
  if (auto got = read(payload, entries, out); !got) return got;
  sort_by_position(out);
  return {};
}

}  // namespace weir::compressors
