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
/// row by row. Made once, by arithmetic of which every processor gives the same bits. Cosines of different n are not in
/// the same place: take them per n.
const float* cosines(std::size_t n);

/// Room for a block and for what the transform needs beside it.
struct CosineScratch {
  float rows[cosine_side_max * cosine_side_max];
  float both[cosine_side_max * cosine_side_max];
  float down[cosine_side_max * cosine_side_max];
};

/// `rows` x `columns` entries (each 1 to cosine_side_max) of a matrix, whose rows begin `stride` apart.
struct BlockView {
  const float* at = nullptr;
  std::size_t stride = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// The two-dimensional DCT-II of a block, times `scale`; fills the block's coefficients one row behind the other. Gives
/// the largest magnitude() of the entries: if that is not finite, the coefficients mean nothing. `next`, the block that
/// will be asked for next, or none, is fetched into the cache meanwhile.
std::uint32_t transform_block(const BlockView& from, const BlockView& next, float scale, CosineScratch& scratch,
                              float* coefficients);

/// Adds weight times the inverse transform of a few coefficients of a block to its entries. `places` are positions in
/// the block, row by row, ascending.
void add_inverse_block(std::span<const std::uint32_t> places, std::span<const float> values, std::size_t rows,
                       std::size_t columns, float weight, CosineScratch& scratch, float* to, std::size_t stride);

}  // namespace weir::compressors
