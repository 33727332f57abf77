#include "training/optimizers/clip.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numeric>
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
}

TEST(SumOfSquares, AddsEveryValue) {
  for (const std::size_t size : {0u, 1u, 7u, 8u, 21u}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), 1.0f);
    const auto n = static_cast<double>(size);
    EXPECT_EQ(sum_of_squares(values), n * (n + 1) * (2 * n + 1) / 6);
  }
}

}  // namespace
}  // namespace weir::training
