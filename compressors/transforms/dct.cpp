#include "compressors/transforms/dct.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {
namespace {

/// The start of part `index` if `n` is divided into `count` nearly equal parts; the first n % count parts are longer by
/// one.
std::size_t part_begin(std::size_t n, std::size_t count, std::size_t index) {
  return n / count * index + std::min(index, n % count);
}

}  // namespace

BlockGrid::BlockGrid(MatrixShape shape, std::size_t side)
    : shape_(shape), down_((shape.rows + side - 1) / side), across_((shape.columns + side - 1) / side) {
  ensure(side >= 1 && side <= cosine_side_max, "a block's side");
}

BlockGrid::Block BlockGrid::block(std::size_t index) const {
  const std::size_t down = index / across_;
  const std::size_t across = index % across_;
  Block block;
  block.row = part_begin(shape_.rows, down_, down);
  block.column = part_begin(shape_.columns, across_, across);
  block.rows = part_begin(shape_.rows, down_, down + 1) - block.row;
  block.columns = part_begin(shape_.columns, across_, across + 1) - block.column;
  block.position = block.row * shape_.columns + block.rows * block.column;
  return block;
}

bool transform_blocks(const BlockGrid& grid, std::span<const float> entries, std::size_t first, std::size_t last,
                      BlockVisitor visit) {
  CosineScratch scratch;
  std::array<float, cosine_side_max * cosine_side_max> room;
  const auto view = [&](const BlockGrid::Block& block) {
    const std::size_t stride = grid.shape().columns;
    return BlockView{entries.data() + block.row * stride + block.column, stride, block.rows, block.columns};
  };
  for (std::size_t index = first; index < last; ++index) {
    const BlockGrid::Block block = grid.block(index);
    const BlockView from = view(block);
    const BlockView next = index + 1 < last ? view(grid.block(index + 1)) : BlockView{};
    const std::span<float> coefficients(room.data(), block.entries());
    const std::uint32_t largest = transform_block(from, next, 1, scratch, coefficients.data());
    if (largest >= magnitude_infinite) return false;
    // A coefficient is at most `side` times as large as the largest entry.
    constexpr float harmless = coefficient_max / (2 * cosine_side_max);
    if (largest > magnitude(harmless)) {
      constexpr float scale = 0x1p32F;
      transform_block(from, {}, 1 / scale, scratch, coefficients.data());
      constexpr float most = coefficient_max / scale;
      for (float& value : coefficients) value = std::clamp(value, -most, most) * scale;
    }
    visit(index, block, coefficients);
  }
  return true;
}

Result<void> add_inverse(const BlockGrid& grid, const Selection& selection, float weight, at::Tensor& sum) {
  if (std::ranges::any_of(selection.values, [](float value) { return !(std::fabs(value) <= coefficient_max); })) {
    return Error(Errc::malformed, "a payload holds a coefficient that is too large");
  }
  if (!sum.is_cpu()) return device::add_inverse(grid, selection, weight, sum);
  const std::span<float> target = flat(sum);
  for_blocks(grid, [&](std::size_t first, std::size_t last) {
    CosineScratch scratch;
    std::array<std::uint32_t, cosine_side_max * cosine_side_max> places;
    const std::size_t begin = grid.block(first).position;
    const auto found = std::ranges::lower_bound(selection.positions, begin);
    auto at = static_cast<std::size_t>(found - selection.positions.begin());
    for (std::size_t index = first; index < last; ++index) {
      const BlockGrid::Block block = grid.block(index);
      const std::size_t start = at;
      for (; at < selection.size() && selection.positions[at] < block.position + block.entries(); ++at) {
        places[at - start] = static_cast<std::uint32_t>(selection.positions[at] - block.position);
      }
      const std::size_t count = at - start;
      add_inverse_block(std::span(places).first(count), std::span(selection.values).subspan(start, count), block.rows,
                        block.columns, weight, scratch, target.data() + block.row * grid.shape().columns + block.column,
                        grid.shape().columns);
    }
  });
  return {};
}

void for_blocks(const BlockGrid& grid, FunctionRef<void(std::size_t, std::size_t)> body) {
  if (grid.blocks() == 0) return;
  parallel_for_part_ranges(grid.blocks(), grid.block(0).entries(), body);
}

bool select_blocks(const BlockGrid& grid, Selection& out,
                   FunctionRef<bool(std::size_t, std::size_t, Selection&)> choose) {
  if (grid.blocks() == 0) return true;
  const std::size_t entries = grid.block(0).entries();
  return parallel_select(grid.blocks() * entries, entries, out,
                         [&](std::size_t begin, std::size_t end, Selection& part) {
                           return choose(begin / entries, end / entries, part);
                         });
}

}  // namespace weir::compressors
