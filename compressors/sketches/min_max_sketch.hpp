#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compressors/kernels/sketching/hash.hpp"

namespace weir::compressors {

/// The MinMaxSketch of SketchML (Jiang et al., SIGMOD 2018): a table of `rows` times `columns` small numbers that
/// returns for an inserted key its bin or a lower one, never a higher one. Each cell keeps the lowest bin of the keys
/// that fall on it; a query returns the highest bin among the key's cells, one per row. The cell of a key in a row is
/// the high half of mix64(key + row * 2^32), scaled to the columns.
class MinMaxSketch {
 public:
  MinMaxSketch() = default;
  MinMaxSketch(std::uint32_t rows, std::uint32_t columns, std::uint8_t highest) { reset(rows, columns, highest); }

  /// Makes this a sketch without keys. All cells start with `highest`, the highest possible bin.
  void reset(std::uint32_t rows, std::uint32_t columns, std::uint8_t highest);

  void insert(std::uint32_t key, std::uint8_t bin);
  std::uint8_t query(std::uint32_t key) const;

  /// Makes this the sketch of the keys of both. Rows and columns must be equal. A key in both keeps its lower bin.
  void merge(const MinMaxSketch& other);

  /// The cells, row by row.
  std::span<const std::uint8_t> cells() const { return cells_; }
  std::span<std::uint8_t> cells() { return cells_; }

 private:
  std::size_t cell(std::uint32_t key, std::uint32_t row) const {
    const auto hash = static_cast<std::uint32_t>(mix64(key | std::uint64_t{row} << 32) >> 32);
    return std::size_t{row} * columns_ + scaled_hash(hash, columns_);
  }

  std::uint32_t rows_ = 0;
  std::uint32_t columns_ = 0;
  std::vector<std::uint8_t> cells_;
};

}  // namespace weir::compressors
