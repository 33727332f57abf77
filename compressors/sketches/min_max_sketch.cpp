#include "compressors/sketches/min_max_sketch.hpp"

#include <algorithm>
#include <bit>

#include "base/ensure.hpp"

namespace weir::compressors {

void MinMaxSketch::reset(std::uint32_t rows, std::uint32_t columns, std::uint8_t highest) {
  rows_ = rows;
  columns_ = columns;
  const std::size_t cells = std::size_t{rows} * columns;
  cells_.reserve(std::bit_ceil(cells));  // so that it seldom grows: a sketch has another size in each round
  cells_.assign(cells, highest);
}

void MinMaxSketch::insert(std::uint32_t key, std::uint8_t bin) {
  for (std::uint32_t row = 0; row < rows_; ++row) {
    std::uint8_t& kept = cells_[cell(key, row)];
    kept = std::min(kept, bin);
  }
}

std::uint8_t MinMaxSketch::query(std::uint32_t key) const {
  std::uint8_t bin = 0;
  for (std::uint32_t row = 0; row < rows_; ++row) bin = std::max(bin, cells_[cell(key, row)]);
  return bin;
}

void MinMaxSketch::merge(const MinMaxSketch& other) {
  ensure(rows_ == other.rows_ && columns_ == other.columns_, "sketches of one shape");
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i] = std::min(cells_[i], other.cells_[i]);
}

}  // namespace weir::compressors
