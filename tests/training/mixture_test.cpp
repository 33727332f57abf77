#include "training/datasets/mixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace weir::training {
namespace {

constexpr std::uint64_t stream = 1;

/// How often each class comes in so many draws.
std::vector<std::uint64_t> counts(Mixture& mixture, std::size_t classes, std::uint64_t draws) {
  Random random(7, stream);
  std::vector<std::uint64_t> counts(classes);
  for (std::uint64_t i = 0; i < draws; ++i) ++counts.at(mixture.draw(random));
  return counts;
}

/// Six deviations around the expectation of each.
void expect_shares(const std::vector<std::uint64_t>& counts, const std::vector<std::uint64_t>& weights) {
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  const auto total = static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const double share = static_cast<double>(weights[c]) / total;
    const double deviation = std::sqrt(draws * share * (1 - share));
    EXPECT_NEAR(static_cast<double>(counts[c]), draws * share, 6 * deviation) << "class " << c;
  }
}

TEST(Mixture, ClassesComeByTheirWeights) {
  // Numbers of classes around a power of two, and weights that differ in each position.
  for (const std::size_t classes : {1u, 2u, 3u, 7u, 8u, 9u, 13u}) {
    std::vector<std::uint64_t> weights(classes);
    for (std::size_t c = 0; c < classes; ++c) weights[c] = (c * 5 + 3) % 11;
    Mixture mixture(weights);
    expect_shares(counts(mixture, classes, 50'000), weights);
  }
}

TEST(Mixture, TheOthersShareWhatARemovedClassHad) {
  std::vector<std::uint64_t> weights{4, 1, 9, 2, 2, 30, 7};
  Mixture mixture(weights);
  for (const std::size_t removed : {5u, 0u, 6u}) {
    mixture.remove(removed);
    weights[removed] = 0;
    expect_shares(counts(mixture, weights.size(), 50'000), weights);
  }
}

TEST(Mixture, ASmallWeightIsLeftOfALargeOne) {
  constexpr std::uint64_t large = std::uint64_t{1} << 60;
  Mixture mixture({large, 1, large, 3, 0});
  mixture.remove(0);
  mixture.remove(2);
  expect_shares(counts(mixture, 5, 50'000), {0, 1, 0, 3, 0});
  mixture.remove(1);
  EXPECT_FALSE(mixture.empty());
  mixture.remove(3);
  EXPECT_TRUE(mixture.empty());
}

TEST(Mixture, VisitsFewEntriesHoweverManyClassesThereAre) {
  constexpr std::size_t classes = 65'536;
  constexpr std::uint64_t levels = 17;
  Random random(7, stream);
  std::vector<std::uint64_t> weights(classes);
  for (auto& weight : weights) weight = 1 + random.below(1'000'000);
  Mixture mixture(std::move(weights));
  std::set<std::size_t> drawn;
  for (std::size_t i = 0; i < classes; ++i) {
    const std::size_t one = mixture.draw(random);
    ASSERT_TRUE(drawn.insert(one).second) << "class " << one << " twice";
    mixture.remove(one);
  }
  EXPECT_TRUE(mixture.empty());
  EXPECT_LE(mixture.visits(), classes * (2 + 3 * levels)) << "to make it, to draw and to remove";
}

}  // namespace
}  // namespace weir::training
