#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

/// The longest side of a block that is transformed.
inline constexpr std::size_t cosine_side_max = 64;

/// The orthonormal DCT-II of `n` (1 to cosine_side_max) points as a matrix,
///
///     C[k][i] = sqrt((k == 0 ? 1 : 2) / n) * cos(pi * (2 i + 1) * k / (2 n)),
///
/// row by row. Computed once, with arithmetic that gives the same bits on every processor. Each n has a table of its
/// own.
const float* cosines(std::size_t n);

/// Working memory of the transforms.
struct CosineScratch {
  float rows[cosine_side_max * cosine_side_max];
  float both[cosine_side_max * cosine_side_max];
  float down[cosine_side_max * cosine_side_max];
};

/// A block of `rows` x `columns` entries (each 1 to cosine_side_max) of a matrix whose rows are `stride` entries apart.
struct BlockView {
  const float* at = nullptr;
  std::size_t stride = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// Writes scale times the two-dimensional DCT-II of a block to `coefficients`, row by row. Returns the largest
/// magnitude() of the block's entries; if it is magnitude_infinite or more, the coefficients are meaningless. `next` is
/// the block of the following call (empty if there is none) and is prefetched.
std::uint32_t transform_block(const BlockView& from, const BlockView& next, float scale, CosineScratch& scratch,
                              float* coefficients);

/// Adds weight times the inverse transform of a block to its entries. The block has `values` as its coefficients at
/// `places` (row-major positions in the block, ascending) and zero elsewhere.
void add_inverse_block(std::span<const std::uint32_t> places, std::span<const float> values, std::size_t rows,
                       std::size_t columns, float weight, CosineScratch& scratch, float* to, std::size_t stride);

}  // namespace weir::compressors
