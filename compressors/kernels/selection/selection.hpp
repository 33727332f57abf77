#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::compressors {

/// Entries selected from a tensor: their positions, strictly ascending, and their values.
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

/// |x| as an integer that orders like |x|. Infinity and NaN are larger than every finite value, so a search for the
/// largest magnitude finds them.
inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

inline constexpr std::uint32_t magnitude_infinite = 0x7F800000u;

/// A threshold that keeps an exact number of values: all whose magnitude() is above `magnitude`, and the first `ties`
/// of those equal to it.
struct Cut {
  std::uint32_t magnitude = 0;
  std::size_t ties = 0;
};

/// The cut that keeps exactly `rank` of the values (1 <= rank <= size). Takes O(n).
Cut cut_at_rank(std::span<const float> values, std::size_t rank);

/// Fills `out` with the `count` values of largest magnitude (of equal ones, the first), or with all that are not zero
/// if there are fewer. Reads the values several times; where a threshold is known, collect() reads them once.
void select_largest(std::span<const float> values, std::size_t count, Selection& out);

/// Removes the entries that the cut does not keep.
void trim(Selection& selection, Cut cut);

/// Fills `out` with every entry whose magnitude() is at least `least` (`least` >= 1), in one pass at the speed of
/// memory. Returns false, with `out` empty, if there are more than `limit`.
bool collect(std::span<const float> values, std::uint32_t least, std::size_t limit, Selection& out);

/// For each block of peak_block values of a tensor, the last of which may be shorter: the value of the largest
/// magnitude() in it, without its sign. Whoever writes a tensor can note them on the way (kernels/arithmetic.hpp).
using Peaks = std::span<const float>;
inline constexpr std::size_t peak_block = 32;
constexpr std::size_t peaks_of(std::size_t values) { return (values + peak_block - 1) / peak_block; }

/// The same, which reads only blocks that have such an entry. Reads all values if `peaks` is empty.
bool collect(std::span<const float> values, Peaks peaks, std::uint32_t least, std::size_t limit, Selection& out);

/// Puts entries that are in any order, each once, into the order of their positions.
void sort_by_position(Selection& selection);

/// to[position] += weight * value for each selected entry. All positions must lie within `to`.
void add_selection(float weight, const Selection& selection, std::span<float> to);
/// The same, of entries that are part of a selection.
void add_selection(float weight, std::span<const std::uint32_t> positions, std::span<const float> values,
                   std::span<float> to);

/// The position of the first value that is NaN or infinite; values.size() if there is none.
std::size_t find_non_finite(std::span<const float> values);

}  // namespace weir::compressors
