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

std::ptrdiff_t values_of_job(const std::vector<MetricRow>& rows) {
  return std::ranges::count_if(rows, [](const MetricRow& row) { return !row.worker; });
}

TEST(Figures, AStepBelowWhatAllRanksHaveReportedIsNotKept) {
  Figures figures(2, 2, {});
  figures.add(0, 1, std::vector{point("loss", 1, 2)});
  figures.add(0, 3, std::vector{point("loss", 3, 2)});
  figures.add(1, 2, std::vector{point("loss", 2, 2)});
  EXPECT_EQ(values_of_job(figures.add(1, 3, std::vector{point("loss", 1, 2)})), 0) << "rank 1 has passed step 1";
  EXPECT_EQ(values_of_job(figures.add(1, 3, std::vector{point("loss", 3, 2)})), 2) << "of steps 2 and 3";
}

/// A fast worker and one that sees every third step, as with servers: they hardly ever report the same one.
TEST(Figures, WorkersThatSeeOtherStepsHaveValuesOfTheJobToo) {
  Figures figures(2, 2, {});
  std::vector<MetricRow> of_job;
  const auto add = [&](std::uint32_t rank, std::uint64_t step, double value) {
    for (auto& row : figures.add(rank, step, std::vector{point("samples_per_second", step, value)})) {
      if (!row.worker) of_job.push_back(std::move(row));
    }
  };
  for (std::uint64_t step = 1; step <= 300; ++step) {
    add(0, step, 10);
    if (step % 3 == 1) add(1, step + 1, 4);  // before the other sees it
  }
  EXPECT_GT(of_job.size(), 90u) << "as often as the slower one reports";
  EXPECT_LE(of_job.size(), 300u);
  EXPECT_TRUE(std::ranges::is_sorted(of_job, std::ranges::less_equal{}, &MetricRow::step));
  for (const auto& row : of_job) EXPECT_EQ(row.value, 14) << row.step;
}

}  // namespace
}  // namespace weir::cluster
