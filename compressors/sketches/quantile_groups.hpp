#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// Divides entries into groups of quantile buckets, as SketchML does (sketches/sketchml.hpp). Keeps its memory from one
/// assign() to the next.
class QuantileGroups {
 public:
  /// The entries of one group: their positions, ascending, and for each the number of its bucket within the group.
  struct Group {
    std::vector<float> values;  ///< of the buckets
    std::vector<std::uint32_t> keys;
    std::vector<std::uint8_t> buckets;
  };

  /// Divides the entries of `selection`, none of which is zero, into about `groups` groups of about `buckets` buckets
  /// in all. The largest entry of each sign gets a group of its own beside these.
  void assign(const Selection& selection, std::size_t buckets, std::size_t groups);

  std::size_t size() const { return sides_[0].groups().size() + sides_[1].groups().size(); }
  /// First the groups of positive entries, then those of negative ones; each by ascending magnitude, then the largest.
  const Group& operator[](std::size_t i) const {
    const auto first = sides_[0].groups();
    return i < first.size() ? first[i] : sides_[1].groups()[i - first.size()];
  }

 private:
  /// The entries of one sign, and the buckets and groups to which they are assigned.
  class Side {
   public:
    Selection& entries() { return entries_; }
    std::span<const Group> groups() const { return std::span(groups_).first(used_); }

    /// The number of entries that share buckets: all but the largest.
    std::size_t shared() const { return entries_.size() == 0 ? 0 : entries_.size() - 1; }
    /// Assigns the entries to at most `buckets` buckets in at most `groups` groups, and the largest entry to a group of
    /// its own.
    void group(std::size_t buckets, std::size_t groups);

   private:
    std::uint32_t& cell(float value);
    void count_cells();
    void cut(std::size_t buckets, std::size_t groups);
    void use_groups(std::size_t count);
    void put(float value, std::uint32_t position, std::size_t at);

    Selection entries_;
    std::uint32_t least_ = 0;
    std::size_t largest_at_ = 0;
    std::vector<std::uint32_t> cells_;  ///< the number of entries in each cell, then its bucket
    std::vector<std::size_t> group_of_;
    std::vector<std::uint8_t> number_in_group_;
    std::vector<Group> groups_;  ///< of which the first `used_` are in use
    std::size_t used_ = 0;
  };

  void divide_by_sign(const Selection& selection);

  std::array<Side, 2> sides_;
};

}  // namespace weir::compressors
