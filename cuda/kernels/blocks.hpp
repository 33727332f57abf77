#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/block_grid.hpp"
#include "cuda/kernels/selection.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// A tensor of n entries in blocks of `length` (at most 65536), the last of which may be shorter.
struct Blocks {
  constexpr std::uint64_t entries() const { return n; }
  constexpr std::uint64_t count() const { return (n + length - 1) / length; }
  constexpr BlockRange range(std::uint64_t block) const {
    const std::uint64_t begin = block * length;
    return {begin, length < n - begin ? length : n - begin};
  }

  std::uint64_t n = 0;
  std::uint64_t length = 1;
};

/// Where the blocks' entries find their place, as PlaceScratch.
struct BlockScratch {
  /// For so many blocks.
  static std::size_t bytes(std::uint64_t count);

  std::byte* at = nullptr;
};

/// Selects of each block what select_largest() would: its `of_block` entries of largest magnitude (1 <= of_block <=
/// length), or all that are not zero if these are fewer. What BlockK chooses. A thread block takes a block, which stays
/// in the cache. Per entry: 4 bytes read from memory, and three times 4 from the cache; per selected entry, 8 written.
Result<void> select_of_blocks(const float* values, const Blocks& blocks, std::uint64_t of_block, const Selection& to,
                              const BlockScratch& scratch, StreamHandle stream);

/// The same of cosine coefficients, which lie where the grid puts them: at least one of each block, and no more than it
/// has.
Result<void> select_of_blocks(const float* coefficients, const BlockGrid& grid, std::uint64_t of_block,
                              const Selection& to, const BlockScratch& scratch, StreamHandle stream);

}  // namespace weir::cuda
