#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::compressors {

/// Some entries of a tensor: positions, strictly ascending, and their values.
struct Selection {
  std::vector<std::uint32_t> positions;
  std::vector<float> values;

  std::size_t size() const { return positions.size(); }
  void resize(std::size_t size) {
    positions.resize(size);
    values.resize(size);
  }
  void clear() { resize(0); }
};

/// |x| as an integer of the same order. Infinity and NaN come last, so whoever looks for the largest meets
/// them.
inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

inline constexpr std::uint32_t magnitude_infinite = 0x7F800000u;

/// A line through the magnitudes: everything above `magnitude` is kept, and of those equal to it the first
/// `ties`.
struct Cut {
  std::uint32_t magnitude = 0;
  std::size_t ties = 0;
};

/// The cut that keeps exactly `rank` of the values (1 <= rank <= size). Exact, O(n).
Cut cut_at_rank(std::span<const float> values, std::size_t rank);

/// Fills `out` with the `count` largest values (among equals the first), or with all that are not zero if
/// those are fewer. Several passes: collect() is the fast way where a threshold is known.
void select_largest(std::span<const float> values, std::size_t count, Selection& out);

/// Drops from `selection` what the cut does not keep.
void trim(Selection& selection, Cut cut);

/// Fills `out` with every entry whose magnitude is `least` (at least 1) or more, in one pass at the speed of memory.
/// Gives up with false (and an empty `out`) if there are more than `limit`.
bool collect(std::span<const float> values, std::uint32_t least, std::size_t limit, Selection& out);

/// to[position] += weight * value for each entry of the selection, whose positions lie within `to`.
void add_selection(float weight, const Selection& selection, std::span<float> to);

/// The first value that is NaN or infinite, or values.size().
std::size_t find_non_finite(std::span<const float> values);

}  // namespace weir::compressors
