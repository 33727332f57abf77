#include "training/datasets/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/errc.hpp"

namespace weir::training {
namespace {

constexpr std::uint32_t world = 4;
constexpr std::uint64_t batch_size = 8;

std::vector<std::uint16_t> ten_classes(std::size_t examples) {
  std::vector<std::uint16_t> classes(examples);
  for (std::size_t i = 0; i < examples; ++i) classes[i] = static_cast<std::uint16_t>(i * 7 % 10);
  return classes;
}

Sampler sampler_of(Partition partition, std::uint32_t rank, const std::vector<std::uint16_t>& classes,
                   std::uint64_t seed = 5) {
  return Sampler::make({partition, rank, world, batch_size, seed}, classes).value();
}

std::vector<std::uint32_t> epoch_of(Sampler& sampler, std::uint64_t epoch) {
  std::vector<std::uint32_t> all;
  const auto steps = sampler.steps_per_epoch();
  for (std::uint64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
    const auto batch = sampler.examples(step);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

class EveryPartition : public ::testing::TestWithParam<Partition> {};

std::string partition_name(const ::testing::TestParamInfo<Partition>& info) {
  switch (info.param) {
    case Partition::iid: return "iid";
    case Partition::by_class: return "by_class";
    case Partition::dirichlet: return "dirichlet";
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Sampler, EveryPartition,
                         ::testing::Values(Partition::iid, Partition::by_class, Partition::dirichlet), partition_name);

TEST_P(EveryPartition, ShardsAreDisjointAndEquallyLong) {
  const auto classes = ten_classes(1003);
  for (const std::uint64_t epoch : {0u, 3u}) {
    std::set<std::uint32_t> seen;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      auto sampler = sampler_of(GetParam(), rank, classes);
      EXPECT_EQ(sampler.steps_per_epoch(), 1003 / world / batch_size);
      for (const auto position : epoch_of(sampler, epoch)) {
        EXPECT_LT(position, 1003u);
        EXPECT_TRUE(seen.insert(position).second) << position << " twice";
      }
    }
  }
}

TEST_P(EveryPartition, OrderIsAFunctionOfSeedAndStepAlone) {
  const auto classes = ten_classes(640);
  auto one = sampler_of(GetParam(), 1, classes);
  auto two = sampler_of(GetParam(), 1, classes);
  const auto later = epoch_of(two, 2);
  EXPECT_NE(epoch_of(one, 0), later);
  EXPECT_EQ(epoch_of(one, 2), later);
  auto other_seed = sampler_of(GetParam(), 1, classes, 6);
  EXPECT_NE(epoch_of(other_seed, 2), later);
}

TEST(Sampler, ByClassGivesEachRankFewClasses) {
  const auto classes = ten_classes(1000);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    auto sampler = sampler_of(Partition::by_class, rank, classes);
    std::set<std::uint16_t> mine;
    for (const auto position : epoch_of(sampler, 0)) mine.insert(classes[position]);
    EXPECT_LE(mine.size(), 4u);
  }
}

/// The classes of the examples that are in no rank's shard.
std::vector<std::uint16_t> classes_left_out(const std::vector<std::uint16_t>& classes, std::uint64_t seed) {
  std::vector<bool> used(classes.size());
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    auto sampler =
        Sampler::make({.partition = Partition::by_class, .rank = rank, .world = world, .seed = seed}, classes).value();
    for (const auto position : epoch_of(sampler, 0)) used[position] = true;
  }
  std::vector<std::uint16_t> left_out;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!used[i]) left_out.push_back(classes[i]);
  }
  return left_out;
}

TEST(Sampler, ByClassLeavesOutExamplesOfAnyClass) {
  const auto classes = ten_classes(1003);
  std::set<std::uint16_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto left_out = classes_left_out(classes, seed);
    EXPECT_EQ(left_out.size(), 1003 % world);
    seen.insert(left_out.begin(), left_out.end());
  }
  EXPECT_GT(seen.size(), 5u) << "of ten classes";
}

TEST(Sampler, DirichletGivesUnevenMixtures) {
  const auto classes = ten_classes(4000);
  std::size_t most = 0;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    auto sampler = sampler_of(Partition::dirichlet, rank, classes);
    std::vector<std::size_t> count(10);
    for (const auto position : epoch_of(sampler, 0)) ++count[classes[position]];
    for (const auto c : count) most = std::max(most, c);
  }
  EXPECT_GT(most, 200u);  // an even mixture would have 100 of each
}

TEST(Sampler, ASmallAlphaLeavesEachRankFewClassesAndALargeOneAll) {
  const auto classes = ten_classes(4000);
  const auto most_of_one_class = [&](double alpha) {
    std::size_t sum = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      auto sampler = Sampler::make({.partition = Partition::dirichlet,
                                    .rank = rank,
                                    .world = world,
                                    .samples_per_step = batch_size,
                                    .seed = 5,
                                    .dirichlet_alpha = alpha},
                                   classes)
                         .value();
      std::vector<std::size_t> count(10);
      for (const auto position : epoch_of(sampler, 0)) ++count[classes[position]];
      sum += std::ranges::max(count);
    }
    return sum / world;
  };
  EXPECT_GT(most_of_one_class(0.01), 300u);
  EXPECT_LT(most_of_one_class(1000), 140u);
}

TEST(Sampler, KnowsManyClasses) {
  std::vector<std::uint16_t> classes(65'536);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::uint16_t>(i);
  auto last = sampler_of(Partition::by_class, world - 1, classes);
  for (const auto position : epoch_of(last, 0)) EXPECT_GE(classes[position], 49'152u);
}

TEST(Sampler, DirichletUsesEveryExampleOnceWithAsManyClassesAsExamples) {
  constexpr std::size_t examples = 65'536;
  std::vector<std::uint16_t> classes(examples);
  for (std::size_t i = 0; i < examples; ++i) classes[i] = static_cast<std::uint16_t>(examples - 1 - i);
  std::vector<bool> seen(examples);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    auto sampler = sampler_of(Partition::dirichlet, rank, classes);
    for (const auto position : epoch_of(sampler, 0)) {
      EXPECT_FALSE(seen[position]) << position << " twice";
      seen[position] = true;
    }
  }
  EXPECT_EQ(std::ranges::count(seen, true), static_cast<std::ptrdiff_t>(examples));
}

TEST(Sampler, ByClassNeedsAClassForEachRank) {
  const auto classes = ten_classes(1100);
  const auto make = [&](std::uint32_t ranks) {
    return Sampler::make({.partition = Partition::by_class, .world = ranks, .samples_per_step = 1}, classes);
  };
  EXPECT_TRUE(make(10));
  const auto refused = make(11);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
  EXPECT_EQ(refused.error().context,
            "dataset.partition \"by_class\" gives each worker classes of its own, and there are 10 classes for 11 "
            "workers; take fewer workers, or \"dirichlet\"");
}

TEST(Sampler, AShardSmallerThanAStepIsRefused) {
  const auto classes = ten_classes(world * batch_size - 1);
  for (const std::uint64_t samples : {batch_size, std::uint64_t{1} << 36, std::uint64_t{0}}) {
    const auto sampler = Sampler::make({Partition::iid, 0, world, samples, 1}, classes);
    ASSERT_FALSE(sampler) << samples;
    EXPECT_EQ(sampler.error().code, Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace weir::training
