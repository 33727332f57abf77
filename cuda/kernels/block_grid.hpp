#pragma once

#include <cstdint>

namespace weir::cuda {

/// The entries of a block: `size` of them from `begin` on.
struct BlockRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// Twin of BlockGrid (compressors/transforms/dct.hpp): a matrix in `down` times `across` blocks of nearly equal sides,
/// none longer than 64.
struct BlockGrid {
  struct Block {
    std::uint64_t row = 0;  ///< row and column of its first entry
    std::uint64_t column = 0;
    std::uint64_t rows = 0;
    std::uint64_t columns = 0;
    std::uint64_t position = 0;  ///< of its first coefficient
  };

  constexpr std::uint64_t entries() const { return rows * columns; }
  constexpr std::uint64_t count() const { return down * across; }
  constexpr Block block(std::uint64_t index) const {
    const Part of_rows = part(rows, down, index / across);
    const Part of_columns = part(columns, across, index % across);
    return {of_rows.begin, of_columns.begin, of_rows.length, of_columns.length,
            of_rows.begin * columns + of_rows.length * of_columns.begin};
  }
  constexpr BlockRange range(std::uint64_t index) const {
    const Block it = block(index);
    return {it.position, it.rows * it.columns};
  }

  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t down = 0;
  std::uint64_t across = 0;

 private:
  struct Part {
    std::uint64_t begin;
    std::uint64_t length;
  };
  /// Part `index` of n divided into `count` nearly equal ones, of which the first are longer by one.
  static constexpr Part part(std::uint64_t n, std::uint64_t count, std::uint64_t index) {
    const std::uint64_t longer = n % count;
    return {n / count * index + (index < longer ? index : longer), n / count + (index < longer ? 1 : 0)};
  }
};

}  // namespace weir::cuda
