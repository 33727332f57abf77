// The parts of an exchange by the owners of regions: how much each may send, where regions lie, which sums go back.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/errc.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "training/exchange/allowance.hpp"
#include "training/exchange/entry_sum.hpp"
#include "training/exchange/kept_threshold.hpp"
#include "training/exchange/regions.hpp"

namespace weir::training {
namespace {

using compressors::Selection;

// Allowances.

TEST(Allowance, IsThreeHalvesOfAShareAndAddsUp) {
  for (const std::uint32_t ranks : {1U, 2U, 7U, 32U, 1000U}) {
    for (const std::uint64_t chosen : {0UL, 1UL, 5UL, 21UL, 700UL, 12'345UL, 4'000'000'000UL}) {
      std::uint64_t sum = 0;
      std::uint64_t of_all = 0;
      for (std::uint64_t turn = 17; turn < 17 + ranks; ++turn) {
        const std::uint64_t here = allowance(chosen, ranks, turn);
        EXPECT_GE(here, 1U);
        EXPECT_NEAR(static_cast<double>(here), std::max(1.0, 1.5 * static_cast<double>(chosen) / ranks), 1);
        sum += here;
        of_all += allowance_of_all(chosen * ranks, ranks, turn);
      }
      const std::uint64_t most = std::max<std::uint64_t>(3 * chosen / 2, ranks);
      EXPECT_LE(sum, most) << chosen << " of " << ranks;
      EXPECT_LE(of_all, most) << chosen << " of " << ranks;
      if (2 * ranks <= 3 * chosen) {
        EXPECT_EQ(sum, 3 * chosen / 2);
        EXPECT_EQ(of_all, 3 * chosen / 2);
      }
    }
  }
}

std::vector<std::uint64_t> shared_out(std::uint64_t total, const std::vector<std::uint64_t>& wanted,
                                      const std::vector<std::uint64_t>& weights) {
  std::vector<std::uint64_t> shares;
  share_out(total, wanted, weights, shares);
  return shares;
}

TEST(Allowance, IsSharedByWeightAndWhatOneLeavesGoesToTheOthers) {
  using Shares = std::vector<std::uint64_t>;
  EXPECT_EQ(shared_out(10, {3, 7}, {1, 1}), (Shares{3, 7}));
  EXPECT_EQ(shared_out(10, {30, 30}, {1, 4}), (Shares{2, 8}));
  EXPECT_EQ(shared_out(10, {30, 1, 30}, {1, 8, 1}), (Shares{4, 1, 5}));
  EXPECT_EQ(shared_out(5, {0, 9, 0}, {0, 3, 8}), (Shares{0, 5, 0}));
  EXPECT_EQ(shared_out(0, {1, 2}, {1, 1}), (Shares{0, 0}));
  EXPECT_EQ(shared_out(3, {}, {}), Shares());
  const std::uint64_t large = (std::uint64_t{1} << 45) - 1;
  EXPECT_EQ(shared_out(large, {large, large}, {large, large}), (Shares{large / 2, large - large / 2}));
}

// Regions.

std::vector<std::uint64_t> ends_of(const Regions& regions, std::uint32_t ranks) {
  std::vector<std::uint64_t> ends;
  for (std::uint32_t owner = 0; owner < ranks; ++owner) {
    EXPECT_EQ(regions.begin(owner), owner == 0 ? 0 : ends.back());
    ends.push_back(regions.end(owner));
  }
  return ends;
}

TEST(Regions, MoveToWhereTheLoadsBecomeEqual) {
  Regions regions(1000, 4);
  EXPECT_THAT(ends_of(regions, 4), ::testing::ElementsAre(250, 500, 750, 1000));
  regions.end_round(std::vector<std::uint64_t>{400, 0, 0, 400});
  EXPECT_THAT(ends_of(regions, 4), ::testing::ElementsAre(125, 250, 875, 1000));
  regions.end_round(std::vector<std::uint64_t>{250, 150, 200, 200});  // not so uneven that it would matter
  EXPECT_THAT(ends_of(regions, 4), ::testing::ElementsAre(125, 250, 875, 1000));
}

TEST(Regions, MoveNowAndThenAnyway) {
  Regions regions(1000, 2);
  for (std::uint64_t round = 0; round < Regions::rounds_max; ++round) {
    EXPECT_EQ(regions.end(0), 500U);
    regions.end_round(std::vector<std::uint64_t>{3, 1});  // too few to be believed at once
  }
  EXPECT_EQ(regions.end(0), 333U);
}

TEST(Regions, NoticeASuddenChangeAfterALongPeace) {
  Regions regions(1000, 2);
  for (int round = 0; round < 60; ++round) regions.end_round(std::vector<std::uint64_t>{100, 100});
  regions.end_round(std::vector<std::uint64_t>{200, 0});
  EXPECT_EQ(regions.end(0), 250U);
}

/// The load of each region, if entries lie at `positions`.
std::vector<std::uint64_t> loads_of(const Regions& regions, std::uint32_t ranks,
                                    const std::vector<std::uint64_t>& positions) {
  std::vector<std::uint64_t> loads(ranks);
  for (const std::uint64_t at : positions) {
    for (std::uint32_t owner = 0; owner < ranks; ++owner) {
      loads[owner] += at >= regions.begin(owner) && at < regions.end(owner) ? 1 : 0;
    }
  }
  return loads;
}

TEST(Regions, FindEntriesThatAllLieInOnePlace) {
  constexpr std::uint32_t ranks = 32;
  Regions regions(100'000'000, ranks);
  std::vector<std::uint64_t> positions;
  for (std::uint64_t i = 0; i < 5000; ++i) positions.push_back(77'777'777 + i);
  for (int round = 0; round < 5; ++round) regions.end_round(loads_of(regions, ranks, positions));
  const auto loads = loads_of(regions, ranks, positions);
  EXPECT_LE(std::ranges::max(loads), 2 * 5000 / ranks) << ::testing::PrintToString(loads);
}

TEST(Regions, StayWhereThereIsNothing) {
  Regions regions(10, 4);
  for (std::uint64_t round = 0; round <= Regions::rounds_max; ++round) {
    regions.end_round(std::vector<std::uint64_t>{0, 0, 0, 0});
  }
  EXPECT_THAT(ends_of(regions, 4), ::testing::ElementsAre(2, 5, 7, 10));
  Regions empty(0, 3);
  empty.end_round(std::vector<std::uint64_t>{0, 0, 0});
  EXPECT_THAT(ends_of(empty, 3), ::testing::ElementsAre(0, 0, 0));
}

TEST(Regions, TakeOnlyAStateThatTheyCouldHave) {
  Regions regions(1000, 2);
  regions.end_round(std::vector<std::uint64_t>{300, 100});
  regions.end_round(std::vector<std::uint64_t>{30, 31});
  Regions other(1000, 2);
  ASSERT_TRUE(other.restore(regions.save()));
  EXPECT_EQ(ends_of(other, 2), ends_of(regions, 2));
  EXPECT_TRUE(other.save().equal(regions.save()));
  const auto refused = [&](const at::Tensor& state) {
    const auto restored = other.restore(state);
    return !restored && restored.error().code == Errc::malformed;
  };
  const auto numbers = [](std::vector<std::int64_t> list) { return at::tensor(list, at::kLong); };
  EXPECT_TRUE(refused(numbers({1, 600, 1000, 5})));      // too short
  EXPECT_TRUE(refused(numbers({1, 1001, 1000, 5, 5})));  // a border beyond the end
  EXPECT_TRUE(refused(numbers({1, 600, 999, 5, 5})));    // another bucket
  EXPECT_TRUE(refused(numbers({1, -1, 1000, 5, 5})));    // negative
  EXPECT_TRUE(refused(at::zeros({5}, at::kFloat)));      // other numbers
  EXPECT_EQ(ends_of(other, 2), ends_of(regions, 2));
}

// Thresholds.

TEST(KeptThreshold, IsTheKthLargestAndIsKept) {
  KeptThreshold threshold;
  EXPECT_EQ(threshold.least(), 1U);
  threshold.end_round(std::vector<float>{5, -4, 3, -2}, 3);
  EXPECT_EQ(threshold.least(), compressors::magnitude(3.0F));
  for (std::uint32_t round = 1; round < KeptThreshold::rounds_max; ++round) {
    threshold.end_round(std::vector<float>{9, 8, 7}, 3);
    EXPECT_EQ(threshold.least(), compressors::magnitude(3.0F)) << round;
  }
  threshold.end_round(std::vector<float>{9, 8, 7}, 3);
  EXPECT_EQ(threshold.least(), compressors::magnitude(7.0F)) << "after so many rounds a new one is due";
}

TEST(KeptThreshold, IsGivenUpWhereItNoLongerFits) {
  const auto after = [](std::size_t returned, std::uint64_t due) {
    KeptThreshold threshold;
    threshold.end_round(std::vector<float>(30, 2.0F), 30);
    threshold.end_round(std::vector<float>(returned, 5.0F), due);
    return threshold.least();
  };
  const std::uint32_t kept = compressors::magnitude(2.0F);
  const std::uint32_t anew = compressors::magnitude(5.0F);
  EXPECT_EQ(after(20, 30), kept);
  EXPECT_EQ(after(19, 30), 1U);
  EXPECT_EQ(after(40, 30), kept);
  EXPECT_EQ(after(41, 30), anew);
  KeptThreshold few;
  few.end_round(std::vector<float>{1, 2}, 3);
  EXPECT_EQ(few.least(), 1U) << "fewer than wanted came back: nothing is to be left out";
  few.end_round({}, 0);
  EXPECT_EQ(few.least(), 1U);
}

TEST(KeptThreshold, TakesOnlyAStateThatItCouldHave) {
  KeptThreshold threshold;
  threshold.end_round(std::vector<float>{5, -4, 3, -2}, 3);
  threshold.end_round(std::vector<float>{5, -4, 3}, 3);
  KeptThreshold other;
  ASSERT_TRUE(other.restore(threshold.save()));
  EXPECT_TRUE(other.save().equal(threshold.save()));
  for (const auto& wrong : {std::vector<std::int64_t>{0, 0}, {0x7F800000, 0}, {5, 32}, {5, -1}, {5}}) {
    EXPECT_FALSE(other.restore(at::tensor(wrong, at::kLong)));
  }
  EXPECT_FALSE(other.restore(at::ones({2})));
}

TEST(EntrySum, GivesEachPositionOnceAndLeavesZeros) {
  std::vector<float> room(200);
  EntrySum sum;
  Selection out;
  for (int round = 0; round < 2; ++round) {
    sum.begin(room);
    sum.add({.positions = {0, 63, 64, 199}, .values = {1, 2, 3, 4}}, 0.5F);
    sum.add({.positions = {63, 100}, .values = {-2, 8}}, 0.5F);
    sum.take(out);
    EXPECT_THAT(out.positions, ::testing::ElementsAre(0, 63, 64, 100, 199));
    EXPECT_THAT(out.values, ::testing::ElementsAre(0.5F, 0, 1.5F, 4, 2));
    EXPECT_THAT(room, ::testing::Each(0.0F));
    sum.begin(std::span(room).first(10));
    sum.take(out);
    EXPECT_EQ(out.size(), 0U);
  }
}

}  // namespace
}  // namespace weir::training
