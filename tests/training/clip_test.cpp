#include "training/optimizers/clip.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "training/optimizers/norm.hpp"

namespace weir::training {
namespace {

double norm_of(const std::vector<at::Tensor>& tensors) {
  double squares = 0;
  for (const auto& tensor : tensors) squares += tensor.defined() ? tensor.square().sum().item<double>() : 0;
  return std::sqrt(squares);
}

TEST(Clip, LimitsTheNormOfAllTensorsTogether) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> gradients{torch::randn({6, 4}) * 10, at::Tensor(), torch::randn({5})};
  const auto direction = gradients[0] / norm_of(gradients);
  clip({.norm = 2.0}, gradients);
  EXPECT_NEAR(norm_of(gradients), 2, 1e-5);
  EXPECT_TRUE(gradients[0].allclose(direction * 2, 1e-5, 1e-6));
  const auto before = gradients[0].clone();
  clip({.norm = 2.1}, gradients);
  EXPECT_TRUE(gradients[0].equal(before)) << "shorter than the limit";
  clip({}, gradients);
  EXPECT_TRUE(gradients[0].equal(before));
}

TEST(Clip, LimitsEntriesBeforeTheNorm) {
  const std::vector<at::Tensor> gradients{torch::tensor({3.0f, -4.0f, 0.5f})};
  clip({.value = 1.0}, gradients);
  EXPECT_TRUE(gradients[0].equal(torch::tensor({1.0f, -1.0f, 0.5f})));
  clip({.norm = 0.75, .value = 0.5}, gradients);  // 0.5, -0.5, 0.5: a norm of 0.866
  EXPECT_TRUE(gradients[0].allclose(torch::tensor({1.0f, -1.0f, 1.0f}) * (0.75f / std::sqrt(3.0f))));
}

TEST(Clip, ANormThatIsNoNumberLimitsNothing) {
  const std::vector<at::Tensor> gradients{torch::tensor({3.0f, std::numeric_limits<float>::infinity()})};
  clip({.norm = 1.0}, gradients);
  EXPECT_EQ(gradients[0][0].item<float>(), 3.0f);
  gradients[0][1] = std::numeric_limits<float>::quiet_NaN();
  clip({.norm = 1.0}, gradients);
  EXPECT_EQ(gradients[0][0].item<float>(), 3.0f);
}

TEST(Clip, NothingIsWithinAnyLimit) {
  const std::vector<at::Tensor> gradients{torch::zeros({3}), at::Tensor()};
  clip({.norm = 1.0}, gradients);
  EXPECT_TRUE(gradients[0].equal(torch::zeros({3})));
  clip({.norm = 1.0}, std::vector<at::Tensor>{at::Tensor()});
  clip({.norm = 1.0}, {});
}

/// Entry i of a block of 4096 is added to sum i % 8 of eight, these in their order, the blocks of a run of 64, and the
/// runs.
double squares_in_order(const at::Tensor& tensor) {
  const auto* const values = tensor.data_ptr<float>();
  double all = 0;
  double run = 0;
  for (std::int64_t start = 0; start < tensor.numel(); start += 4096) {
    if (start % (64 * 4096) == 0) all += std::exchange(run, 0);
    std::array<double, 8> sums{};
    for (std::int64_t i = start; i < std::min(start + 4096, tensor.numel()); ++i) {
      sums[static_cast<std::size_t>(i % 8)] += double{values[i]} * double{values[i]};
    }
    double block = 0;
    for (const double sum : sums) block += sum;
    run += block;
  }
  return all + run;
}

TEST(SumsOfSquares, AreAddedUpInAFixedOrder) {
  torch::manual_seed(2);
  std::vector<at::Tensor> tensors;
  for (const std::int64_t size : {0, 1, 7, 8, 21, 4095, 4096, 4097, 64 * 4096, 64 * 4096 + 4101}) {
    tensors.push_back(torch::randn({size}));
  }
  const at::Tensor sums = sums_of_squares(tensors);
  ASSERT_EQ(sums.scalar_type(), at::kDouble);
  ASSERT_EQ(sums.dim(), 1);
  ASSERT_EQ(sums.numel(), static_cast<std::int64_t>(tensors.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(sums.data_ptr<double>()[i], squares_in_order(tensors[i])) << tensors[i].numel() << " entries";
  }
}

TEST(SumsOfSquares, DoNotDependOnHowATensorLiesInMemory) {
  torch::manual_seed(3);
  const at::Tensor turned = torch::randn({70, 90}).t();
  const std::vector<at::Tensor> both{turned, turned.contiguous()};
  const at::Tensor sums = sums_of_squares(both);
  EXPECT_EQ(sums.data_ptr<double>()[0], sums.data_ptr<double>()[1]);
}

TEST(SumByHalves, AddsEveryNumberInAFixedOrder) {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 161}) {
    const at::Tensor sum = sum_by_halves(torch::arange(1, n + 1, at::kDouble));
    EXPECT_EQ(sum.dim(), 0);
    EXPECT_EQ(sum.item<double>(), static_cast<double>(n * (n + 1) / 2));
  }
  const double half = 0x1p-53;  // of what can be added to 1
  EXPECT_EQ(sum_by_halves(torch::tensor({half, 1.0, half}, at::kDouble)).item<double>(), 1 + 2 * half);
  EXPECT_EQ(sum_by_halves(torch::tensor({1.0, half, half}, at::kDouble)).item<double>(), 1);
}

}  // namespace
}  // namespace weir::training
