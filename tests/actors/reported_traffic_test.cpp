// What the ranks of jobs with servers report of their traffic.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "job_cluster.hpp"

namespace weir::actors {
namespace {

using protocol::ByteCounts;
using testing::Cluster;

constexpr std::uint32_t workers = 2;

nlohmann::json job_of(const std::string& mode, const nlohmann::json& params) {
  auto spec = testing::job("topk");
  spec["compression"]["params"] = {{"ratio", 0.1}};
  spec["compression"]["memory"] = "residual";
  spec["training"]["mode"] = mode;
  spec["training"]["params"] = params;
  return spec;
}

/// The last report of each rank, after the end. All must be such as the head accepts.
std::vector<protocol::TrafficReport> last_reports(Cluster& cluster, std::uint32_t ranks) {
  std::vector<protocol::TrafficReport> last(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, protocol::Outcome::finished) << cluster.book.ends[rank].cause;
    for (const auto& report : cluster.book.reports[rank]) {
      const auto checked = protocol::check(report.traffic, rank, ranks);
      EXPECT_TRUE(checked) << checked.error().message();
      if (report.traffic) last[rank] = *report.traffic;
    }
    EXPECT_EQ(last[rank].totals.step, cluster.steps_total) << rank;
  }
  return last;
}

void expect_link(const protocol::TrafficTotals& totals, std::uint32_t other) {
  const auto link = std::ranges::find(totals.links, other, &protocol::LinkTraffic::rank);
  ASSERT_NE(link, totals.links.end()) << other;
  EXPECT_GT(link->bytes.sent, 0U) << other;
  EXPECT_GT(link->bytes.received, 0U) << other;
}

ByteCounts sum_of_links(const protocol::TrafficTotals& totals) {
  ByteCounts all;
  for (const auto& link : totals.links) all += link.bytes;
  return all;
}

ByteCounts sum_of_phases(const protocol::TrafficTotals& totals) {
  ByteCounts all;
  for (const auto& phase : totals.phases) all += phase.bytes;
  return all;
}

std::vector<std::string> phases_of(const protocol::TrafficTotals& totals) {
  std::vector<std::string> names;
  for (const auto& phase : totals.phases) names.push_back(phase.name);
  return names;
}

TEST(ReportedTraffic, OfWorkersAndServersNamesTheLinksBetweenThem) {
  constexpr std::uint32_t ranks = workers + 2;
  Cluster cluster(ranks, 2);
  cluster.start(job_of("async", {{"servers", 2}}));
  ASSERT_TRUE(cluster.wait_for_ends());
  const auto last = last_reports(cluster, ranks);
  ByteCounts pushes;
  ByteCounts answers;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto& totals = last[rank].totals;
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if ((rank < workers) != (other < workers)) expect_link(totals, other);
    }
    EXPECT_EQ(sum_of_links(totals), sum_of_phases(totals)) << rank;
    ASSERT_EQ(phases_of(totals), (std::vector<std::string>{"push", "answer", "other"})) << rank;
    EXPECT_FALSE(totals.tensors.empty()) << rank;
    EXPECT_FALSE(last[rank].sampled) << "there are no buckets";
    pushes += totals.phases[0].bytes;
    answers += totals.phases[1].bytes;
  }
  EXPECT_GT(pushes.sent, 0U);
  EXPECT_EQ(pushes.sent, pushes.received);
  EXPECT_GT(answers.sent, 0U);
  EXPECT_EQ(answers.sent, answers.received);
}

TEST(ReportedTraffic, OfWorkersNamesTheLinkToTheStateServerToo) {
  constexpr std::uint32_t state_server = workers;
  Cluster cluster(workers + 1, 1, protocol::Role::state_server);
  cluster.start(job_of("esync", nlohmann::json::object()));
  ASSERT_TRUE(cluster.wait_for_ends());
  const auto last = last_reports(cluster, workers + 1);
  for (std::uint32_t rank = 0; rank <= workers; ++rank) {
    for (std::uint32_t other = 0; other <= workers; ++other) {
      if (other != rank) expect_link(last[rank].totals, other);
    }
    EXPECT_EQ(sum_of_links(last[rank].totals), sum_of_phases(last[rank].totals)) << rank;
    EXPECT_EQ(last[rank].sampled.has_value(), rank != state_server) << rank;
  }
  EXPECT_EQ(phases_of(last[state_server].totals), (std::vector<std::string>{"other"}));
}

}  // namespace
}  // namespace weir::actors
