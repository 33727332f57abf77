#include "cluster/figures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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
  EXPECT_EQ(values_of_job(figures.add(1, 3, std::vector{point("loss", 3, 2)})), 1) << "both have reported step 3";
}

}  // namespace
}  // namespace weir::cluster
