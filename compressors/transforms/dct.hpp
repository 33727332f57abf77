#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.hpp"
#include "compressors/compressor.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// A matrix divided into blocks of nearly equal sides, none longer than `side`: a dimension of n entries has ceil(n /
/// side) blocks, whose lengths differ by at most one and are equal where n is divisible. The cosine coefficients
/// (DCT-II, orthonormal) of all blocks are stored block after block, in row-major order of the blocks and within each
/// block. The position of a coefficient is less than the number of entries.
class BlockGrid {
 public:
  struct Block {
    std::size_t row = 0;  ///< row and column of its first entry
    std::size_t column = 0;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t position = 0;  ///< position of its first coefficient

    std::size_t entries() const { return rows * columns; }
  };

  /// 1 <= side <= cosine_side_max.
  BlockGrid(MatrixShape shape, std::size_t side);

  std::size_t blocks() const { return down_ * across_; }
  /// How many blocks there are in each direction.
  std::size_t down() const { return down_; }
  std::size_t across() const { return across_; }
  Block block(std::size_t index) const;
  MatrixShape shape() const { return shape_; }

 private:
  MatrixShape shape_;
  std::size_t down_;
  std::size_t across_;
};

/// Larger coefficients are clamped to this, because a block of them could sum up to more than a float holds.
inline constexpr float coefficient_max = 0x1p115F;

/// Called with a block's number, the block and its coefficients, for some blocks in ascending order.
using BlockVisitor = FunctionRef<void(std::size_t, const BlockGrid::Block&, std::span<const float>)>;

/// Transforms the blocks [first, last), clamps their coefficients to coefficient_max and passes them to `visit`.
/// Returns false if an entry is NaN or infinite; some blocks are then not visited.
bool transform_blocks(const BlockGrid& grid, std::span<const float> entries, std::size_t first, std::size_t last,
                      BlockVisitor visit);

/// sum += weight * the inverse transform of the coefficients in `selection`. `sum` is float32 and contiguous, also on a
/// device. Fails with: malformed (a coefficient above coefficient_max), internal (on a device).
Result<void> add_inverse(const BlockGrid& grid, const Selection& selection, float weight, at::Tensor& sum);

/// Calls body(first, last) for ranges of blocks, as parallel_for_ranges() does; a range takes some hundred
/// microseconds.
void for_blocks(const BlockGrid& grid, FunctionRef<void(std::size_t, std::size_t)> body);

/// Runs choose(first, last, selection) on ranges of blocks, as for_blocks() does, and concatenates the selections in
/// order into `out`. Returns false if any call returned false.
bool select_blocks(const BlockGrid& grid, Selection& out,
                   FunctionRef<bool(std::size_t, std::size_t, Selection&)> choose);

}  // namespace weir::compressors
