#include "cluster/figures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weir::cluster {
namespace {

constexpr std::uint32_t worker = 0;
constexpr std::uint32_t server = 1;

std::optional<double> value_of(const std::vector<MetricRow>& rows, const std::string& name) {
  for (const auto& row : rows) {
    if (row.name == name && row.worker) return row.value;
  }
  return std::nullopt;
}

protocol::MetricPoint point(const std::string& name, std::uint64_t step, double value) {
  return {.name = name, .step = step, .wall_seconds = 1, .wire_bytes = 100, .value = value};
}

TEST(Figures, CountsGoOnAfterARestartAndOtherValuesDoNot) {
  Figures first(1, 2, {});
  first.add(worker, 4, std::vector{point("bytes_sent", 4, 100), point("loss", 4, 2)});
  first.add(
      server, 4,
      std::vector{point("dropped_gradients", 4, 3), point("applied_gradients", 4, 12), point("staleness_max", 4, 7)});
  Figures second(1, 2, first.past());
  const auto of_worker = second.add(worker, 3, std::vector{point("bytes_sent", 3, 40), point("loss", 3, 1)});
  EXPECT_EQ(value_of(of_worker, "bytes_sent"), 140);
  EXPECT_EQ(value_of(of_worker, "loss"), 1);
  const auto of_server = second.add(
      server, 3,
      std::vector{point("dropped_gradients", 3, 1), point("applied_gradients", 3, 9), point("staleness_max", 3, 2)});
  EXPECT_EQ(value_of(of_server, "dropped_gradients"), 4);
  EXPECT_EQ(value_of(of_server, "applied_gradients"), 21);
  EXPECT_EQ(value_of(of_server, "staleness_max"), 2);
}

std::vector<MetricRow> of_job(std::vector<MetricRow> rows) {
  std::erase_if(rows, [](const MetricRow& row) { return row.worker.has_value(); });
  return rows;
}

TEST(Figures, AValueOfTheJobIsOfWhatEachWorkerHadAtThatStep) {
  Figures figures(2, 2, {});
  figures.add(0, 8, std::vector{point("bytes_sent", 6, 600), point("bytes_sent", 7, 700), point("bytes_sent", 8, 800)});
  const auto rows = of_job(figures.add(1, 8, std::vector{point("bytes_sent", 7, 70), point("bytes_sent", 8, 80)}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].step, 7u);
  EXPECT_EQ(rows[0].value, 770);
  EXPECT_EQ(rows[0].wire_bytes, 200u);
  EXPECT_EQ(rows[1].step, 8u);
  EXPECT_EQ(rows[1].value, 880);
}

TEST(Figures, AWorkerThatReportsAnEarlierStepThanAllHavePassedHasNoPartInIt) {
  Figures figures(2, 2, {});
  figures.add(0, 3, std::vector{point("loss", 1, 2), point("loss", 3, 4)});
  const auto rows = of_job(figures.add(1, 2, std::vector{point("loss", 2, 6)}));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].step, 2u);
  EXPECT_EQ(rows[0].value, 4) << "the mean of the first at step 1 and the second at step 2";
  EXPECT_TRUE(of_job(figures.add(1, 2, std::vector{point("loss", 1, 2)})).empty());
  EXPECT_EQ(of_job(figures.add(1, 3, std::vector{point("loss", 3, 6)})).at(0).value, 5);
}

/// Without limits what one worker reports would grow for as long as another reports nothing.
TEST(Figures, WhatWaitsForAnotherWorkerIsBounded) {
  Figures figures(2, 2, {});
  for (std::uint64_t step = 1; step <= 3000; ++step) figures.add(0, step, std::vector{point("loss", step, 1)});
  std::size_t values = 0;
  for (std::uint64_t step = 1; step <= 3000; ++step) {
    values += of_job(figures.add(1, step, std::vector{point("loss", step, 3)})).size();
  }
  EXPECT_EQ(values, 1024u);
}

/// With servers, workers see other steps: here three of which each sees another one, and reports several at a time.
TEST(Figures, SeriesOfTheJobAscendWhateverStepsItsWorkersSee) {
  Figures figures(3, 3, {});
  std::vector<MetricRow> values;
  std::vector<std::vector<protocol::MetricPoint>> kept(3);
  for (std::uint64_t step = 1; step <= 300; ++step) {
    const auto rank = static_cast<std::uint32_t>(step * 7919 % 3);
    auto one = point("bytes_sent", step, static_cast<double>(10 * step));
    one.wire_bytes = 10 * step;
    one.wall_seconds = static_cast<double>(step);
    kept[rank].push_back(one);
    if (kept[rank].size() < 3 * (rank + 1)) continue;
    for (auto& row : of_job(figures.add(rank, step, kept[rank]))) values.push_back(std::move(row));
    kept[rank].clear();
  }
  EXPECT_GT(values.size(), 60u);
  EXPECT_LE(values.size(), 100u) << "as many as the worker reports that reports least";
  EXPECT_TRUE(std::ranges::is_sorted(values, std::ranges::less_equal{}, &MetricRow::step));
  EXPECT_TRUE(std::ranges::is_sorted(values, {}, &MetricRow::value)) << "a count";
  EXPECT_TRUE(std::ranges::is_sorted(values, {}, &MetricRow::wire_bytes));
  EXPECT_TRUE(std::ranges::is_sorted(values, {}, &MetricRow::wall_seconds));
  for (const auto& row : values) EXPECT_LE(row.value, 30.0 * static_cast<double>(row.step));
}

TEST(Figures, TheSpeedOfTheJobIsThatOfManySteps) {
  Figures figures(1, 1, {});
  for (std::uint64_t step = 1; step <= 40; ++step) {
    const double rate = step % 10 == 0 ? 5 : 100;  // workers wait in some steps
    figures.add(worker, step, std::vector{point("samples_per_second", step, rate)});
  }
  EXPECT_NEAR(figures.summary()["samples_per_second"], 10 / (9 / 100.0 + 1 / 5.0), 1e-9) << "samples by time";
  EXPECT_EQ(figures.figures_of(worker)["samples_per_second"], 5) << "its last value";
  for (std::uint64_t step = 41; step <= 104; ++step) {
    figures.add(worker, step, std::vector{point("samples_per_second", step, 30)});
  }
  EXPECT_NEAR(figures.summary()["samples_per_second"], 30, 1e-9);
}

/// A training with 128 samples in each step: how long a step takes depends on its number.
struct Training {
  static constexpr double samples = 128;

  /// Reports the steps up to `end`, of which so many make a value, and calls `see` with each of these.
  void run_to(std::uint64_t end, std::uint64_t stride, const std::function<void(std::uint64_t step)>& see) {
    while (step < end) {
      double seconds = 0;
      for (std::uint64_t i = 0; i < stride; ++i) seconds += seconds_of(++step);
      const double rate = samples * static_cast<double>(stride) / seconds;
      figures.add(worker, step, std::vector{point("samples_per_second", step, rate)});
      see(step);
    }
  }
  double speed() const { return figures.summary()["samples_per_second"]; }

  Figures figures;
  std::function<double(std::uint64_t step)> seconds_of;
  std::uint64_t step = 0;
};

TEST(Figures, TheSpeedOfTheJobIsThatOfWholePeriods) {
  double slower = 1;
  Training training{Figures(1, 1, {}, 100), [&](std::uint64_t step) {
                      return slower * (step % 100 == 0 ? 1.01 : 0.01);  // an exchange of a second
                    }};
  training.run_to(290, 1, [](std::uint64_t) {});
  EXPECT_NEAR(training.speed(), 290 * 128 / 4.9, 1e-6) << "two exchanges so far, the last of them 90 steps ago";
  training.run_to(1000, 1, [&](std::uint64_t step) {
    if (step >= 400) {
      EXPECT_NEAR(training.speed(), 6400, 1e-6) << step;
    }
  });
  // Later a value is of several steps, and an exchange may be in one at the edge.
  training.run_to(2000, 8, [&](std::uint64_t step) { EXPECT_NEAR(training.speed(), 6400, 1e-6) << step; });
  training.run_to(9008, 32, [&](std::uint64_t step) { EXPECT_NEAR(training.speed(), 6400, 500) << step; });
  slower = 2;
  training.run_to(9008 + 400, 8, [](std::uint64_t) {});
  EXPECT_NEAR(training.speed(), 3200, 1e-6) << "four periods later";
}

TEST(Figures, TheSpeedOfAJobWhoseValuesAreOfManyStepsIsThatOfTheLast) {
  double seconds = 0.128;
  Training training{Figures(1, 1, {}), [&](std::uint64_t) { return seconds; }};
  training.run_to(100 * 1024, 1024, [](std::uint64_t) {});
  EXPECT_NEAR(training.speed(), 1000, 1e-6);
  seconds = 0.256;
  training.run_to(101 * 1024, 1024, [](std::uint64_t) {});
  EXPECT_NEAR(training.speed(), 500, 1e-6);
}

TEST(Figures, AValueOfMoreStepsCountsForMoreInTheSpeed) {
  Figures figures(1, 1, {});
  figures.add(worker, 10, std::vector{point("samples_per_second", 10, 100)});
  EXPECT_NEAR(figures.summary()["samples_per_second"], 100, 1e-9);
  figures.add(worker, 14, std::vector{point("samples_per_second", 14, 50)});
  figures.add(worker, 15, std::vector{point("samples_per_second", 15, 200)});
  EXPECT_NEAR(figures.summary()["samples_per_second"], 6 / (1 / 100.0 + 4 / 50.0 + 1 / 200.0), 1e-9);
}

TEST(Figures, TimesOfTheJobAreMeans) {
  Figures figures(2, 2, {});
  figures.add(0, 1, std::vector{point("wait_seconds", 1, 3), point("compute_seconds", 1, 1)});
  const auto rows = of_job(figures.add(1, 1, std::vector{point("wait_seconds", 1, 1), point("compute_seconds", 1, 3)}));
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) EXPECT_EQ(row.value, 2) << row.name << ": both add up to the step of 4 seconds";
}

TEST(Figures, TimePassesBetweenAttempts) {
  Figures first(1, 1, {});
  first.add(worker, 4, std::vector{point("loss", 4, 2)});
  Figures second(1, 1, first.past());
  second.begin_after(30);
  EXPECT_EQ(second.add(worker, 3, std::vector{point("loss", 3, 2)}).at(0).wall_seconds, 31);
  EXPECT_EQ(second.past().wall_seconds, 31);
  Figures third(1, 1, second.past());
  third.begin_after(5);
  EXPECT_EQ(third.add(worker, 3, std::vector{point("loss", 3, 2)}).at(0).wall_seconds, 32) << "it does not go back";
}

}  // namespace
}  // namespace weir::cluster
