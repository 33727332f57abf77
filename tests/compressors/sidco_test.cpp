#include "compressors/sparsifiers/sidco.hpp"

#include <gtest/gtest.h>

#include <cmath>

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
  std::vector<std::uint32_t> positions;
  const Bytes payload = encoded(sidco, x, round_at(step));
  sidco.support(payload, round_at(step), static_cast<std::uint64_t>(x.numel()), positions).value();
  return static_cast<double>(positions.size());
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

TEST(Sidco, StagesAdaptUntilTheCountIsRight) {
  for (const std::string distribution : {"exponential", "gamma", "pareto"}) {
    for (const bool heavy : {false, true}) {
      Sidco sidco({.ratio = 0.002, .distribution = distribution});
      double last = 0;
      for (std::uint64_t step = 0; step < 40; ++step) {
        const at::Tensor x = heavy ? heavy_tailed(entries, step % 4) : gaussian(entries, step % 4);
        const double count = sent(sidco, x, step);
        if (step >= 35) last += count / 5;
      }
      EXPECT_NEAR(last, 200, heavy ? 70 : 45) << distribution << ", heavy " << heavy << ", " << stages(sidco);
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
