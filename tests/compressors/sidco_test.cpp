#include "compressors/sparsifiers/sidco.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "support.hpp"

namespace weir::compressors::test {
namespace {

/// Magnitudes with exactly the quantiles of a distribution, in a mixed order and with mixed signs.
template <class Quantile>
at::Tensor quantiles(std::int64_t entries, const Quantile& quantile) {
  at::Tensor x = at::empty({entries});
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::int64_t mixed = i * 7'919 % entries;
    const double at = (static_cast<double>(mixed) + 0.5) / static_cast<double>(entries);
    x.data_ptr<float>()[i] = static_cast<float>((i % 2 == 0 ? 1 : -1) * quantile(at));
  }
  return x;
}

double sent(Sidco& sidco, const at::Tensor& x, std::uint64_t step) {
  const Bytes payload = encoded(sidco, x, round_at(step));
  const auto positions = positions_in(sidco, payload, round_at(step), static_cast<std::uint64_t>(x.numel()));
  return static_cast<double>(positions.value().size());
}

double stages(const Sidco& sidco) { return sidco.save().at(0).tensor.data_ptr<double>()[0]; }

constexpr std::int64_t entries = 100'003;

TEST(Sidco, OneStageIsExactForItsOwnDistribution) {
  const at::Tensor exponential = quantiles(entries, [](double at) { return -0.02 * std::log(1 - at); });
  Sidco by_exponential({.ratio = 0.01});
  EXPECT_NEAR(sent(by_exponential, exponential, 0), 1'000, 20);
  Sidco by_gamma({.ratio = 0.01, .distribution = "gamma"});  // of shape 1
  EXPECT_NEAR(sent(by_gamma, exponential, 0), 1'000, 100);
  const at::Tensor pareto = quantiles(entries, [](double at) { return 5 * (std::pow(1 - at, -0.1) - 1); });
  Sidco by_pareto({.ratio = 0.01, .distribution = "pareto"});
  EXPECT_NEAR(sent(by_pareto, pareto, 0), 1'000, 50);
  Sidco misfit({.ratio = 0.01});
  EXPECT_GT(sent(misfit, pareto, 0), 1'150) << "the distributions differ";
}

TEST(Sidco, OneStageIsTheFormula) {
  const at::Tensor x = gaussian(entries, 1);
  const at::Tensor sizes = x.abs().to(at::kDouble);
  const double mean = sizes.mean().item<double>();
  const auto count_from = [&](double threshold) {
    return static_cast<double>((sizes >= threshold).sum().item<std::int64_t>());
  };
  Sidco exponential({.ratio = 0.02});
  EXPECT_NEAR(sent(exponential, x, 0), count_from(-mean * std::log(0.02)), 2);
  const double s = std::log(mean) - sizes.log().mean().item<double>();
  const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  Sidco gamma({.ratio = 0.02, .distribution = "gamma"});
  EXPECT_NEAR(sent(gamma, x, 0), count_from(-mean / shape * (std::log(0.02) + std::lgamma(shape))), 2);
  const double ratio = mean * mean / sizes.var(false).item<double>();
  const double tail = (1 - ratio) / 2;
  Sidco pareto({.ratio = 0.02, .distribution = "pareto"});
  EXPECT_NEAR(sent(pareto, x, 0), count_from(mean * (ratio + 1) / 2 / tail * (std::pow(0.02, -tail) - 1)), 2);
}

/// The threshold of several stages, in plain tensor operations. `sizes` are the magnitudes, none of them zero.
double threshold_of(at::Tensor sizes, const std::string& distribution, double ratio, std::int64_t stages) {
  constexpr double first_ratio = 0.25;
  double least = 0;
  for (std::int64_t stage = 1;; ++stage) {
    const double mean = (sizes - least).mean().item<double>();
    const auto next = [&](double share) {
      if (distribution == "exponential") return least - mean * std::log(share);
      if (distribution == "gamma" && stage == 1) {
        const double s = std::log(mean) - sizes.log().mean().item<double>();
        const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
        return -mean / shape * (std::log(share) + std::lgamma(shape));
      }
      const double k = mean * mean / sizes.var(false).item<double>();
      const double shape = (1 - k) / 2;
      return least + mean * (k + 1) / 2 / shape * (std::pow(share, -shape) - 1);
    };
    if (stage == stages || ratio >= first_ratio) return next(ratio);
    const double first = next(first_ratio);
    const at::Tensor above = sizes.masked_select(sizes > first);
    ratio *= static_cast<double>(sizes.numel()) / static_cast<double>(above.numel());
    least = first;
    sizes = above;
  }
}

/// How the number of stages follows the share of what was wanted that five rounds have sent.
struct Adaptation {
  std::int64_t stages = 1;
  std::int64_t direction = 1;
  double distance = 0;

  void look(double achieved, std::int64_t stages_max) {
    if (std::abs(achieved - 1) <= 0.2) return;
    const double now = std::abs(std::log(std::max(achieved, 1e-6)));
    if (distance > 0 && now > 1.1 * distance) direction = -direction;
    const auto next = std::clamp<std::int64_t>(stages + direction, 1, stages_max);
    if (next != stages) distance = now;
    stages = next;
  }
};

TEST(Sidco, SeveralStagesAreTheFormulaAndAdapt) {
  constexpr double wanted = 201;  // ceil(0.002 * entries)
  for (const std::string distribution : {"exponential", "gamma", "pareto"}) {
    for (const bool heavy : {false, true}) {
      SCOPED_TRACE(distribution + (heavy ? ", heavy tails" : ", Gaussian"));
      Sidco sidco({.ratio = 0.002, .distribution = distribution});
      Adaptation model;
      double achieved = 0;
      for (std::uint64_t step = 0; step < 40; ++step) {
        const at::Tensor x = heavy ? heavy_tailed(entries, step % 4) : gaussian(entries, step % 4);
        const at::Tensor sizes = x.abs().to(at::kDouble);
        const auto above = [&](std::int64_t of_stages) {
          return (sizes >= threshold_of(sizes, distribution, 0.002, of_stages)).sum().item<double>();
        };
        const double own = above(model.stages);
        // Where nothing is above the threshold, that of the most stages is taken.
        ASSERT_NEAR(sent(sidco, x, step), own > 0 ? own : above(sidco.stages_max()), 1) << "step " << step;
        achieved += own / wanted / 5;
        if (step % 5 < 4) continue;
        model.look(std::exchange(achieved, 0), sidco.stages_max());
        ASSERT_EQ(stages(sidco), static_cast<double>(model.stages)) << "step " << step;
      }
    }
  }
}

TEST(Sidco, ALookEveryFiveRounds) {
  Sidco sidco({.ratio = 0.001});
  const at::Tensor x = gaussian(entries, 2);  // of which one exponential finds far too few
  for (std::uint64_t step = 0; step < 4; ++step) sent(sidco, x, step);
  EXPECT_EQ(stages(sidco), 1);
  sent(sidco, x, 4);
  EXPECT_EQ(stages(sidco), 2);
  EXPECT_EQ(sidco.stages_max(), 5);
}

TEST(Sidco, AddsAStageIfOneSendsEverMoreThoughLittleMoreFromLookToLook) {
  constexpr std::int64_t size = 10'000;
  Sidco sidco({.ratio = 0.01, .adapt_every = 1});
  sent(sidco, at::ones({size}), 0);
  NamedTensor state = sidco.save().at(0);
  // The change before was from two stages to one, with a quarter too many entries.
  state.tensor = at::tensor({1.0, -1.0, 0.0, 0.0, std::log(1.25)}, at::kDouble);
  sidco.restore(std::vector{state}).value();
  std::uint64_t step = 1;
  for (std::int64_t ones = 125; ones <= 128; ++ones) {  // all that are not zero are sent
    EXPECT_EQ(stages(sidco), 1) << ones;
    at::Tensor x = at::zeros({size});
    x.narrow(0, 0, ones).fill_(1);
    EXPECT_EQ(sent(sidco, x, step++), static_cast<double>(ones));
  }
  EXPECT_EQ(stages(sidco), 2) << "128 is a tenth farther from 100 than 125, in logarithms";
}

TEST(Sidco, HasOneStageForARatioThatIsTooSmallToBeDivided) {
  EXPECT_EQ(Sidco({.ratio = std::numeric_limits<double>::denorm_min(), .first_ratio = 0.9}).stages_max(), 1);
}

TEST(Sidco, SendsSomethingOfEveryTensorThatHasSomething) {
  for (const std::string distribution : {"exponential", "gamma", "pareto"}) {
    Sidco sidco({.ratio = 0.01, .distribution = distribution});
    EXPECT_EQ(sent(sidco, at::full({1'000}, -2.0F), 0) > 0, true);
    EXPECT_EQ(sent(sidco, at::zeros({1'000}), 1), 0);
    at::Tensor lone = at::zeros({50'000});
    lone[49'999] = 1;
    EXPECT_EQ(sent(sidco, lone, 2), 1);
    EXPECT_GE(sent(sidco, gaussian(3, 1), 3), 1);
  }
}

TEST(Sidco, LargeTensorsAreFittedOnASample) {
  const at::Tensor x = gaussian(1 << 20, 3);
  Sidco whole({.ratio = 0.05});
  const double mean = x.abs().mean().item<double>();
  const auto exact = (x.abs() >= -mean * std::log(0.05)).sum().item<std::int64_t>();
  EXPECT_NEAR(sent(whole, x, 0), static_cast<double>(exact), 0.03 * static_cast<double>(exact));
}

}  // namespace
}  // namespace weir::compressors::test
