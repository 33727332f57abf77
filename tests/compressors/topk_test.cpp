#include "compressors/sparsifiers/topk.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "compressors/kernels/selection/selection.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

std::vector<std::uint32_t> chosen(const at::Tensor& x, double ratio) {
  TopK topk({.ratio = ratio});
  return positions_in(topk, encoded(topk, x, round_at(0)), round_at(0), static_cast<std::uint64_t>(x.numel())).value();
}

/// Sorts everything: the definition.
std::vector<std::uint32_t> largest(const at::Tensor& x, std::size_t count) {
  const float* values = x.data_ptr<float>();
  std::vector<std::uint32_t> order(static_cast<std::size_t>(x.numel()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return magnitude(values[a]) > magnitude(values[b]); });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](auto i) { return values[i] == 0; });
  std::ranges::sort(order);
  return order;
}

TEST(TopK, IsExactForEveryKindOfTensor) {
  const at::Tensor rows = gaussian(60'000, 1).reshape({60, 1'000});
  rows[17].mul_(100);  // all that matters lies together
  const at::Tensor columns = gaussian(1 << 16, 2).reshape({-1, 256});
  columns.select(1, 3).mul_(50);  // ... or at one stride
  const std::vector<at::Tensor> tensors = {
      gaussian(60'000, 3), heavy_tailed(60'000, 4), sparse(60'000, 5),         at::round(gaussian(60'000, 6) * 2),
      rows.flatten(),      columns.flatten(),       at::full({30'000}, -2.0F), at::arange(30'000, at::kFloat)};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const double ratio : {0.001, 0.02, 0.2}) {
      const std::size_t kept = entries_kept(ratio, static_cast<std::uint64_t>(tensors[i].numel()));
      EXPECT_EQ(chosen(tensors[i], ratio), largest(tensors[i], kept)) << "tensor " << i << ", ratio " << ratio;
    }
  }
}

TEST(TopK, KeepsTheCeilingAndOneAtLeast) {
  EXPECT_EQ(chosen(gaussian(25'000, 7), 0.001).size(), 25);
  EXPECT_EQ(chosen(gaussian(25'001, 7), 0.001).size(), 26);
  EXPECT_EQ(chosen(gaussian(3, 7), 0.001).size(), 1);
  EXPECT_EQ(chosen(gaussian(3, 7), 1).size(), 3);
  EXPECT_EQ(entries_kept(0.5, 0), 0);
}

TEST(TopK, LeNetAtOneInAThousandIsMoreThan700TimesSmaller) {
  TopK topk({.ratio = 0.001});
  Bytes out;
  std::size_t dense = 0;
  for (const std::int64_t entries : {500, 25'000, 400'000, 5'000}) {
    topk.encode(gaussian(entries, 8), round_at(0), out).value();
    dense += static_cast<std::size_t>(entries) * sizeof(float);
  }
  EXPECT_GT(static_cast<double>(dense) / static_cast<double>(out.size()), 700);
}

TEST(TopK, HasThisPayload) {
  TopK topk({.ratio = 0.25});
  const at::Tensor x = at::tensor({0.0F, 1.0F, -2.0F, 0.5F, 0.0F, 0.0F, 0.25F, 3.0F});
  const Bytes payload = encoded(topk, x, round_at(0));
  // entries 8, count 2, bitmap (4) and fp32 (0); bits 2 and 7; -2 and 3
  const std::vector<unsigned> body = {8, 2, 0x04, 0x84, 0, 0, 0, 0xC0, 0, 0, 0x40, 0x40};
  ASSERT_EQ(payload.size(), 7 + body.size());
  for (std::size_t i = 0; i < body.size(); ++i) EXPECT_EQ(std::to_integer<unsigned>(payload[7 + i]), body[i]) << i;
}

}  // namespace
}  // namespace weir::compressors::test
