#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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
/// device's memory, aligned as by Memory.
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
  };
  Kind kind = Kind::same_entries;
};

/// The most values of which one kernel finds the cut.
inline constexpr std::uint64_t small_cut_max = std::uint64_t{1} << 15;

/// What find_small_cuts() finds: the cut of n values, small_cut_max at most, which lie `stride` apart.
struct SmallCut {
  const float* values = nullptr;
  std::uint64_t stride = 1;
  std::uint64_t n = 0;
  std::uint64_t rank = 1;   ///< 1 <= rank <= n
  bool takes_ties = false;  ///< its `ties` become all
  Cut* cut = nullptr;
};

/// The exact cuts of several tensors in one launch. Per value: one sector of 32 bytes read, or 4 bytes if they are
/// neighbours.
Result<void> find_small_cuts(std::span<const SmallCut> cuts, StreamHandle stream);

/// A tensor whose magnitudes are to be counted.
struct Counted {
  const float* values = nullptr;
  std::uint64_t n = 0;
  Bins* bins = nullptr;
};

/// Adds them to the bins of several tensors, in one launch. Per entry: 4 bytes read.
Result<void> count_magnitudes(std::span<const Counted> tensors, StreamHandle stream);

/// What find_rough_cuts() finds, of a tensor whose magnitudes have been counted: a cut that selects the `rank` entries
/// of largest magnitude, and all that have the upper part of their magnitudes (bins.hpp) in common with the last of
/// them.
struct RoughCut {
  const Bins* bins = nullptr;
  std::uint64_t rank = 1;  ///< at least 1, and at most as many as were counted
  Cut* cut = nullptr;
};

/// The rough cuts of several tensors in one launch.
Result<void> find_rough_cuts(std::span<const RoughCut> cuts, StreamHandle stream);

/// The cut that selects the `rank` entries of largest magnitude, of equal ones the first, or all that are not zero if
/// these are fewer. Counts digits of 11 bits from above: the first unless `bins` has its counts, the second of the
/// entries that have the first, which are kept aside if they are at most an eighth of all, and the third of these. Per
/// entry: 4 bytes read without bins, 4 read and up to 1/2 written for the second digit, and up to 1/2 (4 if they were
/// not kept) read for the third. Less where the digits so far decide. Equal keys make all three steps read 4 bytes. Few
/// values are read once (find_small_cuts()).
Result<void> find_cut(const float* values, std::uint64_t n, const Rank& rank, const Bins* bins,
                      const CutScratch& scratch, Cut* cut, StreamHandle stream);

}  // namespace weir::cuda
