#include "cuda/kernels/cosines.hpp"

#include <algorithm>

#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "cuda/kernels/blocks.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

constexpr std::array<BlockGrid, 8> grids = {{{1, 1, 1, 1},
                                             {64, 64, 1, 1},
                                             {1, 130, 1, 3},
                                             {65, 3, 2, 1},
                                             {70, 100, 2, 2},
                                             {129, 127, 3, 2},
                                             {100, 101, 7, 3},
                                             {7, 9, 7, 9}}};

/// The tables of a grid on the device.
class Tables {
 public:
  explicit Tables(const BlockGrid& grid) {
    for (const bool is_across : {false, true}) {
      const std::uint64_t shorter = is_across ? grid.columns / grid.across : grid.rows / grid.down;
      for (std::size_t longer = 0; longer < 2; ++longer) {
        const std::size_t n = std::min<std::size_t>(shorter + longer, compressors::cosine_side_max);
        const float* const from = compressors::cosines(n);
        std::vector<float> table(n * n);
        for (std::size_t i = 0; i < n * n; ++i) table[i] = is_across ? from[i % n * n + i / n] : from[i];
        arrays_.emplace_back(table);
        (is_across ? tables_.across : tables_.down)[longer] = arrays_.back().data();
      }
    }
  }
  const CosineTables& operator*() const { return tables_; }

 private:
  std::vector<Array<float>> arrays_;
  CosineTables tables_;
};

std::vector<float> coefficients_of(const std::vector<float>& matrix, const BlockGrid& grid) {
  std::vector<float> all(matrix.size());
  compressors::CosineScratch scratch;
  for (std::uint64_t i = 0; i < grid.count(); ++i) {
    const BlockGrid::Block block = grid.block(i);
    const compressors::BlockView from{matrix.data() + block.row * grid.columns + block.column, grid.columns, block.rows,
                                      block.columns};
    float* const to = all.data() + block.position;
    const std::uint32_t largest = compressors::transform_block(from, {}, 1, scratch, to);
    const std::span<float> coefficients(to, block.rows * block.columns);
    if (largest >= magnitude_infinite) {
      std::ranges::fill(coefficients, std::numeric_limits<float>::infinity());
    } else if (largest > compressors::magnitude(0x1p108F)) {
      compressors::transform_block(from, {}, 0x1p-32F, scratch, to);
      for (float& x : coefficients) x = std::clamp(x, -0x1p83F, 0x1p83F) * 0x1p32F;
    }
  }
  return all;
}

std::string named(const BlockGrid& grid) {
  return std::to_string(grid.rows) + " x " + std::to_string(grid.columns) + " in " + std::to_string(grid.count());
}

TEST(CudaCosines, CoefficientsAreThoseOfTheTwin) {
  for (const BlockGrid& grid : grids) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(grid) + ", " + named(grid.entries(), among));
      const auto matrix = some_values(grid.entries(), among);
      const Array<float> coefficients(matrix.size(), 1);
      transform_blocks(Array<float>(matrix, 3).data(), grid, *Tables(grid), coefficients.data(), nullptr).value();
      ASSERT_TRUE(same_bits(coefficients.read(), coefficients_of(matrix, grid)));
    }
  }
}

TEST(CudaCosines, InverseIsThatOfTheTwin) {
  for (const BlockGrid& grid : grids) {
    for (const unsigned one_of : {1U, 2U, 17U, 5000U}) {
      SCOPED_TRACE(named(grid) + ", one of " + std::to_string(one_of));
      std::mt19937 random(one_of);
      const auto all = some_values(grid.entries(), Among::zeros);
      compressors::Selection some;
      for (std::uint32_t at = 0; at < all.size(); ++at) {
        if (random() % one_of > 0) continue;
        some.positions.push_back(at);
        some.values.push_back(all[at]);
      }
      auto due = some_values(grid.entries(), Among::zeros, 2);
      const Array<float> sum(due, 3);
      for (std::uint64_t i = 0; i < grid.count(); ++i) {
        const BlockGrid::Block block = grid.block(i);
        std::vector<std::uint32_t> places;
        std::vector<float> values;
        for (std::size_t n = 0; n < some.size(); ++n) {
          const std::uint64_t place = some.positions[n] - block.position;
          if (some.positions[n] < block.position || place >= block.rows * block.columns) continue;
          places.push_back(static_cast<std::uint32_t>(place));
          values.push_back(some.values[n]);
        }
        compressors::CosineScratch scratch;
        compressors::add_inverse_block(places, values, block.rows, block.columns, -0.7F, scratch,
                                       due.data() + block.row * grid.columns + block.column, grid.columns);
      }
      const Array<std::uint32_t> positions(some.positions, 1);
      const Array<float> values(some.values, 2);
      add_inverse({positions.data(), values.data(), some.size()}, grid, *Tables(grid), -0.7F, sum.data(), nullptr)
          .value();
      ASSERT_TRUE(same_bits(sum.read(), due));
    }
  }
}

TEST(CudaCosines, OfEachBlockTheLargestAreSelected) {
  for (const BlockGrid& grid : grids) {
    for (const std::uint64_t of_block : {1, 32, 4096}) {
      SCOPED_TRACE(named(grid) + ", " + std::to_string(of_block) + " of each");
      const auto values = some_values(grid.entries(), Among::zeros);
      compressors::Selection due;
      compressors::Selection found;
      for (std::uint64_t i = 0; i < grid.count(); ++i) {
        const auto [begin, size] = grid.range(i);
        compressors::select_largest(std::span(values).subspan(begin, size), std::min(of_block, size), found);
        for (const std::uint32_t at : found.positions) due.positions.push_back(static_cast<std::uint32_t>(begin + at));
        due.values.insert(due.values.end(), found.values.begin(), found.values.end());
      }
      const Array<std::uint32_t> positions(values.size(), 1);
      const Array<float> selected(values.size(), 2);
      const Array<std::uint32_t> count{std::vector<std::uint32_t>(1)};
      const Array<std::byte> scratch(BlockScratch::bytes(grid.count()));
      select_of_blocks(Array<float>(values, 1).data(), grid, of_block,
                       {positions.data(), selected.data(), values.size(), count.data()}, {scratch.data()}, nullptr)
          .value();
      ASSERT_EQ(count.read()[0], due.size());
      ASSERT_TRUE(same_bits(positions.read(due.size()), due.positions));
      ASSERT_TRUE(same_bits(selected.read(due.size()), due.values));
    }
  }
}

}  // namespace
}  // namespace weir::cuda
