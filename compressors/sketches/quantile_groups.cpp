#include "compressors/sketches/quantile_groups.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compressors/parallel_loops.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t work_per_grouped_entry = 16;  // grouping an entry takes as long as reading this many

/// Quantiles are computed on magnitudes reduced to eight bits after the leading one: entries closer than 1 / 256 share
/// a bucket.
std::uint32_t cell_of(std::uint32_t magnitude) { return magnitude >> 15; }

/// The share of `whole` that corresponds to `part` of `all`, at least one.
std::size_t share_of(std::size_t whole, std::size_t part, std::size_t all) {
  return all == 0 ? 1 : std::max<std::size_t>(1, whole * part / all);
}

}  // namespace

void QuantileGroups::assign(const Selection& selection, std::size_t buckets, std::size_t groups) {
  divide_by_sign(selection);
  const std::size_t shared = sides_[0].shared() + sides_[1].shared();
  parallel_for_parts(sides_.size(), work_per_grouped_entry * shared / sides_.size(), [&](std::size_t i) {
    const std::size_t own = sides_[i].shared();
    sides_[i].group(share_of(buckets, own, shared), share_of(groups, own, shared));
  });
}

/// Divides the entries into those that are not negative and those that are.
void QuantileGroups::divide_by_sign(const Selection& selection) {
  std::array<std::size_t, 2> sizes = {0, 0};
  for (Side& side : sides_) side.entries().resize(selection.size());
  for (std::size_t i = 0; i < selection.size(); ++i) {  // without a branch, because signs cannot be predicted
    const std::size_t sign = std::signbit(selection.values[i]) ? 1 : 0;
    Selection& entries = sides_[sign].entries();
    entries.positions[sizes[sign]] = selection.positions[i];
    entries.values[sizes[sign]] = selection.values[i];
    ++sizes[sign];
  }
  for (std::size_t sign = 0; sign < 2; ++sign) sides_[sign].entries().resize(sizes[sign]);
}

void QuantileGroups::Side::group(std::size_t buckets, std::size_t groups) {
  used_ = 0;
  if (entries_.size() == 0) return;
  count_cells();
  cut(buckets, groups);
  for (std::size_t i = 0; i < entries_.size(); ++i) put(entries_.values[i], entries_.positions[i], i);
}

std::uint32_t& QuantileGroups::Side::cell(float value) { return cells_[cell_of(magnitude(value)) - cell_of(least_)]; }

void QuantileGroups::Side::count_cells() {
  const auto largest = std::ranges::max_element(entries_.values, {}, magnitude);
  largest_at_ = static_cast<std::size_t>(largest - entries_.values.begin());
  least_ = magnitude(*std::ranges::min_element(entries_.values, {}, magnitude));
  const std::size_t cells = cell_of(magnitude(*largest)) - cell_of(least_) + 1;
  cells_.reserve(std::bit_ceil(cells));  // so that it seldom grows: how many there are is another number in each round
  cells_.assign(cells, 0);
  for (const float value : entries_.values) ++cell(value);
  --cell(*largest);
}

/// Assigns a bucket to each cell. With the sharing entries numbered in ascending order, a new bucket begins at a cell
/// whose first entry e has another floor(e * buckets / all) than the first entry of the previous cell in use.
void QuantileGroups::Side::cut(std::size_t buckets, std::size_t groups) {
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
  use_groups(shared_groups + 1);
  group_of_.resize(shared_buckets);
  number_in_group_.resize(shared_buckets);
  for (std::size_t i = 0; i < shared_buckets; ++i) {
    group_of_[i] = i * shared_groups / shared_buckets;
    auto& values = groups_[group_of_[i]].values;
    number_in_group_[i] = static_cast<std::uint8_t>(values.size());
    values.push_back(0);  // 0: no entry yet
  }
  groups_[shared_groups].values.push_back(0);
}

/// Empties the first `count` groups for the entries to come.
void QuantileGroups::Side::use_groups(std::size_t count) {
  used_ = count;
  if (groups_.size() < count) groups_.resize(count);
  for (Group& group : std::span(groups_).first(count)) {
    group.values.clear();
    group.keys.clear();
    group.buckets.clear();
  }
}

void QuantileGroups::Side::put(float value, std::uint32_t position, std::size_t at) {
  Group* group = &groups_[used_ - 1];
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

}  // namespace weir::compressors
