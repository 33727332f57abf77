#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/bins.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twin of cut_at_rank() (compressors/kernels/selection/selection.hpp). A tensor has fewer than 2^32 entries.

/// Which entries of a tensor are selected: all whose magnitude (the bits without the sign) is above `magnitude`, and
/// the first `ties` of those equal to it; but never zeros. Lies in the device's memory.
struct Cut {
  static constexpr std::uint32_t all = ~0U;

  std::uint32_t magnitude = 0;
  std::uint32_t ties = all;
};

/// Where a cut is looked for; what is in it means nothing to others. find_cut() of n entries needs `bytes(n)` of the
/// device's memory, aligned as by Memory; for a rough cut those of any n will do.
struct CutScratch {
  static std::size_t bytes(std::uint64_t n);

  std::byte* at = nullptr;
};

/// What find_cut() has to find.
struct Rank {
  std::uint64_t rank = 1;  ///< 1 <= rank <= n
  enum class Kind : std::uint8_t {
    same_entries,  ///< any cut that selects these entries
    exact,         ///< the twin's, which takes longer
    /// One that selects these entries and all that have the upper part of their magnitudes (bins.hpp) in common with
    /// the last of them: it is known after one digit.
    rough,
  };
  Kind kind = Kind::same_entries;
};

/// The most values of which one kernel finds the cut.
inline constexpr std::uint64_t small_cut_max = std::uint64_t{1} << 15;

/// The exact cut of n values, small_cut_max at most, which lie `stride` apart; 1 <= rank <= n. `takes_ties`: its `ties`
/// become all. Per value: one sector of 32 bytes read, or 4 bytes if they are neighbours.
Result<void> find_small_cut(const float* values, std::uint64_t stride, std::uint64_t n, std::uint64_t rank,
                            bool takes_ties, Cut* cut, StreamHandle stream);

/// The cut that selects the `rank` entries of largest magnitude, of equal ones the first, or all that are not zero if
/// these are fewer. Counts digits of 11 bits from above: the first unless `bins` has its counts, the second of the
/// entries that have the first, which are kept aside if they are at most an eighth of all, and the third of these. Per
/// entry: 4 bytes read without bins, 4 read and up to 1/2 written for the second digit, and up to 1/2 (4 if they were
/// not kept) read for the third. Less where the digits so far decide. Equal keys make all three steps read 4 bytes. Few
/// values are read once (find_small_cut()).
Result<void> find_cut(const float* values, std::uint64_t n, const Rank& rank, const Bins* bins,
                      const CutScratch& scratch, Cut* cut, StreamHandle stream);

}  // namespace weir::cuda
