#include "compressors/sketches/sketchml.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sketches/delta_keys.hpp"
#include "compressors/sketches/min_max_sketch.hpp"
#include "compressors/sparsifiers/topk.hpp"

namespace weir::compressors {
namespace {

constexpr std::uint64_t buckets_max = 256;
constexpr std::int64_t rows_max = 8;
constexpr std::size_t work_per_entry = 16;  // grouping an entry takes as long as reading this many

/// The entries of one group: their positions, ascending, and for each the number of its bucket within the group.
struct Group {
  std::vector<float> values;  ///< of the buckets
  std::vector<std::uint32_t> keys;
  std::vector<std::uint8_t> buckets;
};

/// Quantiles are computed on magnitudes reduced to eight bits after the leading one: entries closer than 1 / 256 share
/// a bucket.
std::uint32_t cell_of(std::uint32_t magnitude) { return magnitude >> 15; }

/// The entries of one sign, and the buckets and groups to which they are assigned.
class Side {
 public:
  explicit Side(Selection entries) : entries_(std::move(entries)) {}

  /// The number of entries that share buckets: all but the largest.
  std::size_t shared() const { return entries_.size() == 0 ? 0 : entries_.size() - 1; }

  /// Assigns the entries to at most `buckets` buckets in at most `groups` groups, and the largest entry to a group of
  /// its own.
  void group(std::size_t buckets, std::size_t groups) {
    if (entries_.size() == 0) return;
    count_cells();
    cut(buckets, groups);
    for (std::size_t i = 0; i < entries_.size(); ++i) put(entries_.values[i], entries_.positions[i], i);
  }

  std::vector<Group> groups() && { return std::move(groups_); }

 private:
  std::uint32_t& cell(float value) { return cells_[cell_of(magnitude(value)) - cell_of(least_)]; }

  void count_cells() {
    const auto largest = std::ranges::max_element(entries_.values, {}, magnitude);
    largest_at_ = static_cast<std::size_t>(largest - entries_.values.begin());
    least_ = magnitude(*std::ranges::min_element(entries_.values, {}, magnitude));
    cells_.assign(cell_of(magnitude(*largest)) - cell_of(least_) + 1, 0);
    for (const float value : entries_.values) ++cell(value);
    --cell(*largest);
  }

  /// Assigns a bucket to each cell. With the sharing entries numbered in ascending order, a new bucket begins at a cell
  /// whose first entry e has another floor(e * buckets / all) than the first entry of the previous cell in use.
  void cut(std::size_t buckets, std::size_t groups) {
    const std::size_t all = std::max<std::size_t>(shared(), 1);  // if there are none, every cell is empty
    std::size_t before = 0;
    std::size_t next = 0;  // quantile of the last bucket, plus one
    std::uint32_t bucket = 0;
    for (std::uint32_t& cell : cells_) {
      if (cell == 0) continue;
      const std::size_t quantile = before * buckets / all;
      before += cell;
      if (next != 0 && quantile + 1 != next) ++bucket;
      next = quantile + 1;
      cell = bucket;
    }
    const std::size_t shared_buckets = shared() > 0 ? bucket + 1 : 0;
    const std::size_t shared_groups = std::min(groups, shared_buckets);
    groups_.resize(shared_groups + 1);
    group_of_.resize(shared_buckets);
    number_in_group_.resize(shared_buckets);
    for (std::size_t i = 0; i < shared_buckets; ++i) {
      group_of_[i] = i * shared_groups / shared_buckets;
      auto& values = groups_[group_of_[i]].values;
      number_in_group_[i] = static_cast<std::uint8_t>(values.size());
      values.push_back(0);  // 0: no entry yet
    }
    groups_.back().values.push_back(0);
  }

  void put(float value, std::uint32_t position, std::size_t at) {
    Group* group = &groups_.back();
    std::uint8_t bucket = 0;
    if (at != largest_at_) {
      const std::uint32_t shared_bucket = cell(value);
      group = &groups_[group_of_[shared_bucket]];
      bucket = number_in_group_[shared_bucket];
    }
    group->keys.push_back(position);
    group->buckets.push_back(bucket);
    float& least = group->values[bucket];
    if (least == 0 || magnitude(value) < magnitude(least)) least = value;
  }

  Selection entries_;
  std::uint32_t least_ = 0;
  std::size_t largest_at_ = 0;
  std::vector<std::uint32_t> cells_;  ///< the number of entries in each cell, then its bucket
  std::vector<std::size_t> group_of_;
  std::vector<std::uint8_t> number_in_group_;
  std::vector<Group> groups_;
};

/// Divides the entries into those that are not negative and those that are.
std::array<Selection, 2> by_sign(const Selection& selection) {
  std::array<Selection, 2> sides;
  std::array<std::size_t, 2> sizes = {0, 0};
  for (Selection& side : sides) side.resize(selection.size());
  for (std::size_t i = 0; i < selection.size(); ++i) {  // without a branch, because signs cannot be predicted
    const std::size_t sign = std::signbit(selection.values[i]) ? 1 : 0;
    sides[sign].positions[sizes[sign]] = selection.positions[i];
    sides[sign].values[sizes[sign]] = selection.values[i];
    ++sizes[sign];
  }
  for (std::size_t sign = 0; sign < 2; ++sign) sides[sign].resize(sizes[sign]);
  return sides;
}

/// The share of `whole` that corresponds to `part` of `all`, at least one.
std::size_t share_of(std::int64_t whole, std::size_t part, std::size_t all) {
  return all == 0 ? 1 : std::max<std::size_t>(1, static_cast<std::size_t>(whole) * part / all);
}

std::vector<Group> grouped(const Selection& selection, const SketchMl::Options& options) {
  auto [positive, negative] = by_sign(selection);
  std::array<Side, 2> sides = {Side(std::move(positive)), Side(std::move(negative))};
  const std::size_t shared = sides[0].shared() + sides[1].shared();
  parallel_for_parts(sides.size(), work_per_entry * shared / sides.size(), [&](std::size_t i) {
    const std::size_t own = sides[i].shared();
    sides[i].group(share_of(options.buckets, own, shared), share_of(options.groups, own, shared));
  });
  std::vector<Group> groups = std::move(sides[0]).groups();
  std::ranges::move(std::move(sides[1]).groups(), std::back_inserter(groups));
  return groups;
}

unsigned cell_bits(std::uint64_t buckets) { return static_cast<unsigned>(std::bit_width(buckets - 1)); }

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
  MinMaxSketch sketch(static_cast<std::uint32_t>(options.rows), columns,
                      static_cast<std::uint8_t>(group.values.size() - 1));
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
  std::vector<float> values(*buckets);
  std::ranges::copy(*value_bytes, std::as_writable_bytes(std::span(values)).begin());
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
  MinMaxSketch sketch(rows, static_cast<std::uint32_t>(*columns), 0);
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

double SketchMl::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

Result<void> SketchMl::do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  const std::span<const float> values = flat(gradient);
  chosen.clear();
  if (values.empty()) return {};
  select_largest_by_sample(values, round.peaks, entries_kept(options_.ratio, values.size()), chosen);
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(chosen.values) != chosen.size()) return non_finite(round, values);
  return {};
}

Result<void> SketchMl::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto chosen = do_select(gradient, round, selection_); !chosen) return chosen;
  write(selection_, static_cast<std::uint64_t>(gradient.numel()), out);
  return {};
}

void SketchMl::write(const Selection& selection, std::uint64_t entries, Bytes& out) const {
  const std::vector<Group> groups = grouped(selection, options_);
  std::vector<Bytes> parts(groups.size());
  const std::size_t work = work_per_entry * selection.size() / std::max<std::size_t>(groups.size(), 1);
  parallel_for_parts(groups.size(), work, [&](std::size_t i) { append_group(groups[i], options_, parts[i]); });
  Bytes body;
  append_varint(body, entries);
  body.push_back(static_cast<std::byte>(options_.rows));
  append_varint(body, groups.size());
  for (const Bytes& part : parts) append(body, part);
  PayloadWriter payload(out, Format::quantile, body.size());
  std::ranges::copy(body, payload.body().begin());
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
