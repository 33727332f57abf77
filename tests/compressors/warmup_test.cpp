#include "compressors/sparsifiers/warmup.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::compressors::test {
namespace {

double ratio(const Warmup& warmup, double epoch, double epochs_total = 0, double base = 0.001) {
  return warmup.ratio(base, {.epoch = epoch, .course = {.epochs = epochs_total}});
}

TEST(Warmup, ComesDownWithoutStepsAfterItsDenseShare) {
  const Warmup warmup{.epochs = 2, .dense = 0.5};
  EXPECT_EQ(ratio(warmup, 0), 1);
  EXPECT_EQ(ratio(warmup, 0.999), 1);
  EXPECT_EQ(ratio(warmup, 1), 1);
  EXPECT_NEAR(ratio(warmup, 1 + 1.0 / 3), 0.1, 1e-9);
  EXPECT_NEAR(ratio(warmup, 1.5), std::sqrt(0.001), 1e-9);
  EXPECT_NEAR(ratio(warmup, 1 + 2.0 / 3), 0.01, 1e-9);
  EXPECT_NEAR(ratio(warmup, 1.999), 0.001, 1e-5);
  EXPECT_EQ(ratio(warmup, 2), 0.001);
}

TEST(Warmup, OfAQuarterEpochPassesThroughAllStages) {
  for (const auto& schedule : Warmup::schedules()) {
    const Warmup brief{.epochs = 0.25, .dense = 0, .schedule = std::string(schedule)};
    const Warmup whole{.epochs = 5, .dense = 0, .schedule = std::string(schedule)};
    for (double epoch = 0.125; epoch < 6; epoch += 0.25) {
      EXPECT_DOUBLE_EQ(ratio(brief, epoch / 20), ratio(whole, epoch)) << schedule << epoch;
    }
  }
}

TEST(Warmup, OfThePaper) {
  const Warmup warmup{.epochs = 4, .dense = 0, .schedule = "paper"};
  EXPECT_EQ(ratio(warmup, 0), 0.25);
  EXPECT_EQ(ratio(warmup, 1.2), 0.0625);
  EXPECT_EQ(ratio(warmup, 2.7), 0.015625);
  EXPECT_EQ(ratio(warmup, 3.9), 0.00390625);
  EXPECT_EQ(ratio(warmup, 4), 0.001);
  EXPECT_EQ(ratio(warmup, 3.9, 0, 0.02), 0.02) << "never below the ratio";
}

TEST(Warmup, OfTheAuthorsCode) {
  const Warmup warmup{.epochs = 5, .dense = 0, .schedule = "authors"};
  const std::vector<double> published = {0.316, 0.1, 0.0316, 0.01, 0.00316, 0.001};
  for (std::size_t epoch = 0; epoch < published.size(); ++epoch) {
    EXPECT_NEAR(ratio(warmup, static_cast<double>(epoch) + 0.5), published[epoch], published[epoch] * 0.01);
  }
}

TEST(Warmup, UsuallyTakesAShareOfTheTrainingAndFourEpochsAtMost) {
  const Warmup usual;
  const auto falling = [](double epochs) { return TrainingCourse{.epochs = epochs, .rate_falls = true}; };
  EXPECT_EQ(usual.length(falling(2)), 1);
  EXPECT_EQ(usual.length(falling(0.5)), 0.25);
  EXPECT_EQ(usual.length(falling(90)), 4);
  EXPECT_EQ(usual.length({.epochs = 2}), 0.2) << "at a constant rate";
  EXPECT_EQ(usual.length({.epochs = 90}), 4);
  EXPECT_EQ(ratio(usual, 0.99, 10), 1) << "all of it is dense";
  EXPECT_EQ(ratio(usual, 1, 10), 0.001);
  EXPECT_EQ(ratio(usual, 0), 0.001) << "how long the training takes is not known";
  EXPECT_EQ(Warmup{.epochs = 0}.length(falling(90)), 0);
}

}  // namespace
}  // namespace weir::compressors::test
