#include "actors/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::actors {
namespace {

training::StepRecord step(std::uint64_t number, double loss = 1) {
  training::StepRecord record;
  record.step = number;
  record.loss = loss;
  record.samples = 32;
  record.seconds = 0.5;
  record.dense_bytes = 1000;
  return record;
}

std::vector<std::uint64_t> steps_of(const std::vector<protocol::MetricPoint>& points, const std::string& name) {
  std::vector<std::uint64_t> steps;
  for (const auto& point : points) {
    if (point.name == name) steps.push_back(point.step);
  }
  return steps;
}

TEST(Metrics, HaveAPointForEachOfTheFirstStepsHoweverLongTheJobWillBe) {
  Metrics metrics({.steps_total = 234'000});
  for (std::uint64_t number = 1; number <= 1000; ++number) {
    metrics.add(step(number), {});
    const auto points = metrics.take();
    for (const auto* name : {"loss", "samples_per_second", "bytes_sent", "compute_seconds", "wait_seconds"}) {
      ASSERT_EQ(steps_of(points, name), std::vector{number}) << name;
    }
  }
}

TEST(Metrics, OfALongJobAreEverFewerAndNeverTooFewToDraw) {
  std::uint64_t points = 0;
  std::uint64_t newest = 0;
  for (std::uint64_t number = 1; number <= 1'000'000; ++number) {
    if (number % Metrics::stride_at(number) != 0) continue;
    ++points;
    ASSERT_LE(number - newest, 1 + number / Metrics::points_per_doubling) << "a long silence before step " << number;
    newest = number;
  }
  EXPECT_LE(points, 6'500U);
  EXPECT_GE(points, 1'000U);
}

TEST(Metrics, AreMeansOverTheStepsOfAPointAndEndWithTheJob) {
  const std::uint64_t begin = 4 * Metrics::points_per_doubling;  // from here on four steps are one point
  ASSERT_EQ(Metrics::stride_at(begin), 4U);
  Metrics metrics({.steps_total = begin + 6});
  metrics.add(step(begin), {});
  metrics.take();
  for (std::uint64_t i = 1; i <= 6; ++i) metrics.add(step(begin + i, static_cast<double>(i)), {});
  const auto points = metrics.take();
  EXPECT_EQ(steps_of(points, "loss"), (std::vector{begin + 4, begin + 6}));
  std::vector<double> losses;
  for (const auto& point : points) {
    if (point.name == "loss") losses.push_back(point.value);
  }
  EXPECT_EQ(losses, (std::vector{2.5, 5.5}));
}

TEST(Metrics, OfARunThatEndsBetweenTwoPointsHaveOneAtItsEnd) {
  const std::uint64_t begin = 4 * Metrics::points_per_doubling;  // from here on four steps are one point
  Metrics metrics({.steps_total = begin + 100, .steps_done = begin});
  for (std::uint64_t i = 1; i <= 6; ++i) metrics.add(step(begin + i, static_cast<double>(i)), {});
  for (int times = 0; times < 2; ++times) metrics.finish();
  const auto points = metrics.take();
  EXPECT_EQ(steps_of(points, "loss"), (std::vector{begin + 4, begin + 6}));
  const auto last =
      std::ranges::find_if(points, [&](const auto& point) { return point.name == "loss" && point.step == begin + 6; });
  ASSERT_NE(last, points.end());
  EXPECT_EQ(last->value, 5.5);

  Metrics served({.steps_total = begin + 100, .steps_done = begin});
  served.add({.step = begin + 1, .staleness = 0.5, .staleness_max = 1, .applied = 3, .dropped = 1, .wait_seconds = 0},
             {});
  served.finish();
  EXPECT_EQ(steps_of(served.take(), "applied_gradients"), std::vector{begin + 1});
}

TEST(Metrics, OfAServerCountGradientsSinceItsStart) {
  Metrics metrics({.steps_total = 3});
  metrics.add({.step = 1, .staleness = 0.5, .staleness_max = 1, .applied = 3, .dropped = 1, .wait_seconds = 0.25}, {});
  metrics.add({.step = 3, .staleness = 1.5, .staleness_max = 4, .applied = 6, .dropped = 0, .wait_seconds = 0.5}, {});
  std::map<std::string, std::vector<double>> values;
  for (const auto& point : metrics.take()) values[point.name].push_back(point.value);
  EXPECT_EQ(values["applied_gradients"], (std::vector<double>{3, 9}));
  EXPECT_EQ(values["dropped_gradients"], (std::vector<double>{1, 1}));
  EXPECT_EQ(values["staleness"], (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(values["staleness_max"], (std::vector<double>{1, 4}));
  EXPECT_EQ(values["wait_seconds"], (std::vector<double>{0.25, 0.5}));
}

/// The first point of what was sent after the warm-up.
protocol::MetricPoint first_after_warmup(Metrics& metrics) {
  const auto points = metrics.take();
  const auto found = std::ranges::find(points, "bytes_sent_after_warmup", &protocol::MetricPoint::name);
  return found == points.end() ? protocol::MetricPoint() : *found;
}

TEST(Metrics, CountFromTheFirstStepAfterTheWarmUp) {
  for (const auto& warmup : std::vector<training::WarmupLength>{{2, 0}, {0, 2}, {2, 1}}) {
    Metrics metrics({.steps_total = 100, .warmup = warmup});
    for (std::uint64_t number = 1; number <= 4; ++number) metrics.add(step(number), {.sent_bytes = 10 * number});
    const auto first = first_after_warmup(metrics);
    EXPECT_EQ(first.step, 3U) << "without another count, there is an exchange in each step";
    EXPECT_EQ(first.value, 10);
  }
  Metrics metrics({.steps_total = 100});
  for (std::uint64_t number = 1; number <= 4; ++number) metrics.add(step(number), {.sent_bytes = 10 * number});
  EXPECT_EQ(first_after_warmup(metrics).step, 0U) << "there was none";
}

// As in esync: an exchange after 5, 9, 12 and 14 steps of the job.
TEST(Metrics, CountFromTheFirstRecordAfterAWarmUpInExchangesOrSteps) {
  for (const auto& warmup : std::vector<training::WarmupLength>{{0, 2}, {6, 0}, {9, 2}}) {
    Metrics metrics({.steps_total = 100, .warmup = warmup});
    std::uint64_t before = 0;
    std::uint64_t rounds = 0;
    for (const std::uint64_t number : {5, 9, 12, 14}) {
      auto record = step(number);
      record.steps = number - std::exchange(before, number);
      record.rounds = rounds++;
      metrics.add(record, {.sent_bytes = 10 * number});
    }
    const auto first = first_after_warmup(metrics);
    EXPECT_EQ(first.step, 12U) << warmup.steps << " steps, " << warmup.rounds << " exchanges";
    EXPECT_EQ(first.value, 30);
  }
}

TEST(Metrics, ARecordMayBeAboutSeveralSteps) {
  const std::uint64_t begin = 16 * Metrics::points_per_doubling;  // from here on sixteen steps are one point
  ASSERT_EQ(Metrics::stride_at(begin), 16U);
  Metrics metrics({.steps_total = begin + 100});
  metrics.add(step(begin), {});
  metrics.take();
  auto record = step(begin + 5, 1.0);
  record.steps = 5;
  record.seconds = 10;
  record.local_steps = 7;
  record.share = 0.5;
  metrics.add(record, {});
  EXPECT_TRUE(metrics.take().empty());
  record.step = begin + 20;
  record.steps = 15;
  record.loss = 5.0;
  record.local_steps = 9;
  record.share = 0.25;
  metrics.add(record, {});
  std::map<std::string, double> values;
  for (const auto& point : metrics.take()) {
    EXPECT_EQ(point.step, begin + 20);
    values[point.name] = point.value;
  }
  EXPECT_EQ(values.at("loss"), 4.0) << "5 steps at 1 and 15 at 5";
  EXPECT_EQ(values.at("step_seconds"), 1.0);
  EXPECT_EQ(values.at("local_steps"), 8.0) << "of an exchange";
  EXPECT_EQ(values.at("compression_share"), 0.25) << "the newest";
}

TEST(Progress, WhatIsDueEverySoManyStepsIsDueOnceThatManyAreDone) {
  EXPECT_FALSE(training::is_due(10, 0, 9));
  EXPECT_TRUE(training::is_due(10, 9, 10));
  EXPECT_TRUE(training::is_due(10, 8, 35));
  EXPECT_FALSE(training::is_due(10, 10, 19));
  EXPECT_FALSE(training::is_due(0, 0, 100)) << "never";
}

TEST(Metrics, OfAJobThatGoesOnStandWhereTheyWouldHaveStood) {
  const std::uint64_t begin = 8 * Metrics::points_per_doubling;
  Metrics whole({.steps_total = 100'000});
  Metrics resumed({.steps_total = 50'000, .steps_done = begin + 42});
  for (std::uint64_t number = begin; number <= begin + 100; ++number) whole.add(step(number), {});
  for (std::uint64_t number = begin + 43; number <= begin + 100; ++number) resumed.add(step(number), {});
  auto expected = steps_of(whole.take(), "loss");
  std::erase_if(expected, [&](std::uint64_t number) { return number < begin + 43; });
  EXPECT_EQ(steps_of(resumed.take(), "loss"), expected);
}

}  // namespace
}  // namespace weir::actors
