#include "cuda/kernels/blocks.hpp"

#include <algorithm>

#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

/// What the twin selects of each block, in the order of the blocks.
compressors::Selection selected_of(const std::vector<float>& values, const Blocks& blocks, std::uint64_t of_block) {
  compressors::Selection all;
  compressors::Selection found;
  for (std::uint64_t start = 0; start < blocks.n; start += blocks.length) {
    const auto block = std::span(values).subspan(start, std::min(blocks.length, blocks.n - start));
    compressors::select_largest(block, std::min<std::size_t>(of_block, block.size()), found);
    for (const std::uint32_t at : found.positions) all.positions.push_back(static_cast<std::uint32_t>(start) + at);
    all.values.insert(all.values.end(), found.values.begin(), found.values.end());
  }
  return all;
}

void expect_selected(const std::vector<float>& values, std::uint64_t length, std::uint64_t of_block) {
  SCOPED_TRACE(std::to_string(of_block) + " of " + std::to_string(length));
  const Blocks blocks{.n = values.size(), .length = length};
  const auto due = selected_of(values, blocks, of_block);
  const std::uint64_t limit = blocks.count() * of_block;
  const Array<std::uint32_t> positions(limit, 1);
  const Array<float> found(limit, 2);
  const Array<std::uint32_t> count{std::vector<std::uint32_t>(1)};
  const Array<std::byte> scratch(BlockScratch::bytes(blocks.count()));
  select_of_blocks(Array<float>(values, values.size() % 4).data(), blocks, of_block,
                   {positions.data(), found.data(), limit, count.data()}, {scratch.data()}, nullptr)
      .value();
  ASSERT_EQ(count.read()[0], due.size());
  ASSERT_TRUE(same_bits(positions.read(due.size()), due.positions));
  ASSERT_TRUE(same_bits(found.read(due.size()), due.values));
}

TEST(CudaBlocks, SelectedAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      if (n > 10'000 && among != Among::extremes) continue;  // the emulator is slow
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      expect_selected(values, 4096, 64);
      expect_selected(values, 65536, 3000);
      if (n <= 1025) expect_selected(values, 64, 1);
      if (n <= 1025) expect_selected(values, 100, 100);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaBlocks, OfEqualEntriesTheFirstAreSelected) {
  std::vector<float> values(10'000, -0.5F);
  expect_selected(values, 4096, 700);
  values[3000] = 0.75F;
  values[9000] = 0;
  expect_selected(values, 4096, 700);
}

}  // namespace
}  // namespace weir::cuda
