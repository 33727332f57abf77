// What some compressors promise of their error: that its size has a bound, and that it is zero on average. Members that
// never promise one of them are listed here with the reason; that the lists are exact is a test, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "contract.hpp"

namespace weir::compressors::test {
namespace {

/// Members whose error is never said to be zero on average, and why.
const std::map<std::string, std::string> without_expectation = {
    {"none", "lossless: held to every bit by KeepsItsErrorBound"},
    {"fp16", "rounds to the nearest"},
    {"bf16", "rounds to the nearest"},
    {"int8", "rounds to the nearest"},
    {"uint8", "rounds to the nearest"},
    {"onebit", "sends the means of the two signs"},
    {"signsgd", "votes"},
    {"signum", "votes, and encodes momentum"},
    {"efsignsgd", "sends signs and one magnitude"},
    {"topk", "leaves out the same entries every time"},
    {"threshold", "leaves out the same entries every time"},
    {"dgc", "leaves out the small entries, whatever it samples"},
    {"sidco", "leaves out the same entries every time"},
    {"chunk", "leaves out the same chunks every time"},
    {"blockk", "leaves out the same entries every time"},
    {"cocktail", "leaves out entries without scaling the others"},
    {"powersgd", "projects on few directions"},
    {"demo", "leaves out the same frequencies every time"},
    {"sketchml", "leaves out entries, and decodes the others to no more than they were"},
    {"casq", "sends the means of clusters"},
};

/// For compressors that are unbiased with some parameters at least.
class UnbiasedContract : public CompressorContract {};

/// Members that never have an error bound, and why.
const std::map<std::string, std::string> without_bound = {
    {"signsgd", "signs have no size"},
    {"signum", "signs have no size"},
};

/// For compressors that have an error bound with some parameters at least.
class BoundedContract : public CompressorContract {};

std::vector<std::string> names_except(const std::map<std::string, std::string>& exempt) {
  std::vector<std::string> names = compressor_names();
  std::erase_if(names, [&](const std::string& name) { return exempt.contains(name); });
  return names;
}

bool is_unbiased(const Compressor& compressor) { return !compressor.traits().biased && !compressor.traits().lossless; }

bool has_bound(const Compressor& compressor) { return std::isfinite(compressor.error_bound(1'000'000, round_at(0))); }

INSTANTIATE_TEST_SUITE_P(Catalog, UnbiasedContract, ::testing::ValuesIn(names_except(without_expectation)), name_of);
INSTANTIATE_TEST_SUITE_P(Catalog, BoundedContract, ::testing::ValuesIn(names_except(without_bound)), name_of);

/// The names of the members of which no case promises something.
std::vector<std::string> names_without(bool (&promises)(const Compressor&)) {
  std::vector<std::string> found = compressor_names();
  for (const Case& it : cases()) {
    if (promises(*it.make())) std::erase(found, it.name);
  }
  return found;
}

std::vector<std::string> keys(const std::map<std::string, std::string>& map) {
  std::vector<std::string> all;
  for (const auto& [key, value] : map) all.push_back(key);
  return all;
}

TEST(CompressorPromises, ThoseOfAnExpectationAreTestedWhereverMade) {
  EXPECT_THAT(keys(without_expectation), ::testing::UnorderedElementsAreArray(names_without(is_unbiased)));
}

TEST(CompressorPromises, ThoseOfABoundAreTestedWhereverMade) {
  EXPECT_THAT(keys(without_bound), ::testing::UnorderedElementsAreArray(names_without(has_bound)));
}

/// What promises are tried on.
std::vector<at::Tensor> gradients(std::int64_t rows, std::int64_t columns) {
  const std::int64_t entries = rows * columns;
  return {gaussian(entries, 1).reshape({rows, columns}), sparse(entries, 2).reshape({rows, columns}),
          heavy_tailed(entries, 3), gaussian(37, 4) * 1e-6F};
}

/// The mean of some numbers and the standard error of that mean.
struct Estimate {
  double mean = 0;
  double error = 0;

  explicit Estimate(const std::vector<double>& draws) {
    const auto count = static_cast<double>(draws.size());
    for (const double draw : draws) mean += draw / count;
    double square = 0;
    for (const double draw : draws) square += (draw - mean) * (draw - mean);
    error = draws.size() > 1 ? std::sqrt(square / (count - 1) / count) : 0;
  }
};

void expect_bound(Compressor& compressor, const at::Tensor& x, const std::function<at::Tensor(const Round&)>& trip) {
  const double bound = compressor.error_bound(static_cast<std::uint64_t>(x.numel()), round_at(0));
  std::vector<double> errors = {squared_norm(x - trip(round_at(0)))};
  errors.push_back(squared_norm(x - trip(round_at(1))));
  const bool draws = errors[0] != errors[1];
  for (std::uint64_t step = 2; draws && step < 24; ++step) errors.push_back(squared_norm(x - trip(round_at(step))));
  // The bound is one of the expectation: five standard errors of its estimate are granted.
  const Estimate estimate(errors);
  EXPECT_LE(estimate.mean - 5 * estimate.error, bound * squared_norm(x) * (1 + 1e-5)) << x.sizes();
}

TEST_P(BoundedContract, KeepsItsErrorBound) {
  std::size_t tested = 0;
  for_each_case([&] {
    if (!has_bound(*compressor_)) return;
    ++tested;
    for (const at::Tensor& x : gradients(60, 84)) {
      expect_bound(*compressor_, x, [&](const Round& round) { return round_trip(x, round); });
    }
    const at::Tensor x = gaussian(3'000, 5);
    EXPECT_TRUE(!compressor_->traits().lossless || at::equal(x, round_trip(x, round_)));
  });
  EXPECT_GT(tested, 0u);
}

TEST_P(BoundedContract, KeepsItsErrorBoundOnRecordedGradients) {
  // The first case that has a bound: of nearly all members the defaults.
  const auto all = cases();
  const auto chosen =
      std::ranges::find_if(all, [](const Case& it) { return it.name == GetParam() && has_bound(*it.make()); });
  ASSERT_NE(chosen, all.end());
  compressor_ = (case_ = *chosen).make();
  for (const auto& [name, tensor] : recorded_gradients()) {
    SCOPED_TRACE(name);
    expect_bound(*compressor_, tensor, [&](const Round& round) { return round_trip(tensor, round); });
  }
}

/// Mean and variance of each entry of the decoded tensor over `draws` rounds.
struct Moments {
  at::Tensor mean;
  at::Tensor variance;
};

Moments moments(std::int64_t draws, const std::function<at::Tensor(const Round&)>& trip) {
  at::Tensor sum;
  at::Tensor squares;
  for (std::int64_t step = 0; step < draws; ++step) {
    const at::Tensor y = trip(round_at(static_cast<std::uint64_t>(step))).to(at::kDouble);
    sum = step == 0 ? y : sum + y;
    squares = step == 0 ? y * y : squares + y * y;
  }
  const auto count = static_cast<double>(draws);
  const at::Tensor mean = sum / count;
  return {mean, (squares / count - mean * mean).clamp_min(0) * (count / (count - 1))};
}

// Of N draws y with mean x, N |mean(y) - x|^2 / sum(var(y)) has expectation 1 and, for independent entries, a variance
// of 2 / d where d is how many entries carry the variance: six standard deviations are granted, so that an unbiased
// compressor fails with a probability below 1e-8. A bias of a fifth of the standard deviation makes the figure 25.
TEST_P(UnbiasedContract, DecodesToTheGradientOnAverage) {
  constexpr std::int64_t draws = 600;
  std::size_t tested = 0;
  for_each_case([&] {
    if (!is_unbiased(*compressor_)) return;
    ++tested;
    for (const at::Tensor& x : gradients(12, 20)) {
      const Moments of = moments(draws, [&](const Round& round) { return round_trip(x, round); });
      const double variance = of.variance.sum().item<double>();
      const double deviation = squared_norm(of.mean - x.to(at::kDouble));
      if (variance <= 1e-12 * squared_norm(x)) {
        EXPECT_LE(deviation, 1e-10 * squared_norm(x)) << x.sizes();
        continue;
      }
      const double carrying = variance * variance / squared_norm(of.variance);
      EXPECT_LE(draws * deviation / variance, 1 + 6 * std::sqrt(2 / carrying)) << x.sizes();
    }
  });
  EXPECT_GT(tested, 0u);
}

}  // namespace
}  // namespace weir::compressors::test
