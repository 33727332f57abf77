#include "training/optimizers/lamb.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <vector>

#include "optimizer_case.hpp"

namespace weir::training {
namespace {

using testing::step;

/// The paper's algorithm 2 on plain numbers, with the identity as scaling function.
class Reference {
 public:
  Reference(const Lamb::Options& options, std::vector<double> x)
      : options_(options), x_(std::move(x)), m_(x_.size()), v_(x_.size()) {}

  void step(const std::vector<double>& g, double rate) {
    const auto& [beta1, beta2, epsilon, decay, no_decay, groups] = options_.moments;
    ++steps_;
    std::vector<double> update(x_.size());
    double length = 0;
    double update_length = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      m_[i] = beta1 * m_[i] + (1 - beta1) * g[i];
      v_[i] = beta2 * v_[i] + (1 - beta2) * g[i] * g[i];
      const double m = m_[i] / (1 - std::pow(beta1, steps_));
      const double v = v_[i] / (1 - std::pow(beta2, steps_));
      update[i] = m / (std::sqrt(v) + epsilon) + decay * x_[i];
      length += x_[i] * x_[i];
      update_length += update[i] * update[i];
    }
    const double ratio = length > 0 && update_length > 0 ? std::sqrt(length / update_length) : 1;
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] -= rate * ratio * update[i];
  }

  const std::vector<double>& x() const { return x_; }

 private:
  Lamb::Options options_;
  std::vector<double> x_, m_, v_;
  int steps_ = 0;
};

void expect_reference(const at::Tensor& start, double weight_decay, bool first_gradient_is_zero) {
  Lamb::Options options;
  options.moments.weight_decay = weight_decay;
  const auto numbers = [](const at::Tensor& tensor) {
    const auto flat = tensor.to(at::kDouble).view(-1).contiguous();
    return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  };
  const auto parameter = start.clone();
  Lamb lamb(options, OptimizerSetting{{{"w", parameter}}});
  Reference reference(options, numbers(start));
  for (int i = 0; i < 5; ++i) {
    const auto gradient =
        first_gradient_is_zero && i == 0 ? torch::zeros(start.sizes()) : torch::randn(start.sizes()) * 3;
    step(lamb, gradient, 0.1);
    reference.step(numbers(gradient), 0.1);
    const auto mine = numbers(parameter);
    for (std::size_t entry = 0; entry < mine.size(); ++entry) {
      EXPECT_NEAR(mine[entry], reference.x()[entry], 1e-5 * (1 + std::abs(reference.x()[entry])))
          << "step " << i << " entry " << entry;
    }
  }
}

TEST(Lamb, FollowsTheAlgorithmOfThePaper) {
  torch::manual_seed(1);
  expect_reference(torch::randn({7, 5}), 0.01, false);
  expect_reference(torch::randn({7, 5}), 0, false);
}

TEST(Lamb, WhereANormIsZeroTheRatioIsOne) {
  torch::manual_seed(2);
  expect_reference(torch::zeros({3, 3}), 0.01, false);
  expect_reference(torch::randn({3, 3}), 0, true);
}

TEST(Lamb, ScalesEachTensorByItself) {
  torch::manual_seed(3);
  const auto small = torch::randn({4, 4});
  const auto large = small * 100;
  const auto small_start = small.clone();
  const auto large_start = large.clone();
  Lamb::Options options;
  options.moments.weight_decay = 0;
  Lamb lamb(options, OptimizerSetting{{{"small", small}, {"large", large}}});
  const auto gradient = torch::randn({4, 4});
  std::vector<Mean> means{{.tensor = gradient.clone(), .sparse = false, .positions = {}},
                          {.tensor = gradient.clone(), .sparse = false, .positions = {}}};
  lamb.step(means, 0.1);
  EXPECT_NEAR((small - small_start).norm().item<double>(), 0.1 * small_start.norm().item<double>(), 1e-4);
  EXPECT_TRUE((large - large_start).allclose((small - small_start) * 100, 1e-3, 1e-4));
}

}  // namespace
}  // namespace weir::training
