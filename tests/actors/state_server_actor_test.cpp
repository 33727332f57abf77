#include "actors/state_server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>
#include <string>

#include "job_cluster.hpp"

namespace weir::actors {
namespace {

using protocol::Outcome;
using testing::Cluster;
using testing::series;

constexpr std::uint32_t workers = 2;

nlohmann::json esync_job(const nlohmann::json& params = nlohmann::json::object()) {
  auto spec = testing::job("topk");
  spec["compression"]["params"] = {{"ratio", 0.1}};
  spec["compression"]["memory"] = "residual";
  spec["training"]["mode"] = "esync";
  spec["training"]["params"] = params;
  return spec;
}

TEST(StateServerActor, GuidesAJobThatReportsEvaluatesAndSaves) {
  Cluster cluster(workers + 1, 1, protocol::Role::state_server);
  auto spec = esync_job();
  spec["training"]["epochs"] = 20;
  cluster.start(spec);
  ASSERT_TRUE(cluster.wait_for_ends());
  ASSERT_EQ(cluster.steps_total, 320U);
  for (std::uint32_t rank = 0; rank <= workers; ++rank) {
    const auto& end = cluster.book.ends[rank];
    EXPECT_EQ(end.outcome, Outcome::finished) << rank << ": " << end.cause;
    EXPECT_EQ(end.step, 320U) << rank;
    const auto all = series(cluster.book.reports[rank]);
    EXPECT_EQ(all.contains("loss"), rank < workers);
    EXPECT_EQ(all.contains("accuracy"), rank == 0);
    if (rank == workers) continue;
    EXPECT_EQ(all.at("local_steps").size(), all.at("loss").size()) << "every record ends with an exchange";
    for (std::size_t i = 0; i < all.at("loss").size(); ++i) {
      // Of the steps of the job since the last point: seconds are those of one.
      EXPECT_GT(all.at("step_seconds")[i].value, 0);
      EXPECT_GE(all.at("step_seconds")[i].value, all.at("wait_seconds")[i].value);
    }
    const double parameters = 64 * 16 + 16 + 16 * 4 + 4;
    EXPECT_DOUBLE_EQ(all.at("bytes_dense").back().value, 320 * 4 * parameters) << "what sync would have sent";
  }
  EXPECT_GT(series(cluster.book.reports[0]).at("accuracy").back().value, 0.5);
  ASSERT_TRUE(cluster.book.shares.contains(320));
  for (const auto& [step, shares] : cluster.book.shares) {
    EXPECT_EQ(shares.size(), workers + 1) << "all have a share of the checkpoint of step " << step;
    testing::joined(shares);
  }
}

TEST(StateServerActor, AStoppedJobGoesOnFromItsCheckpoint) {
  auto spec = esync_job();
  spec["training"]["epochs"] = 1e6;
  spec["checkpoint"]["every_steps"] = 0;  // but for the one of the stop
  Cluster stopped(workers + 1, 1, protocol::Role::state_server);
  stopped.start(spec);
  ASSERT_TRUE(stopped.book.wait([&] {
    return std::ranges::all_of(std::views::iota(0U, workers + 1), [&](std::uint32_t rank) {
      const auto& reports = stopped.book.reports[rank];
      return !reports.empty() && reports.back().step > 0;
    });
  })) << "every rank tells how far the job has come";
  for (std::uint32_t rank = 0; rank <= workers; ++rank) {
    ASSERT_TRUE(stopped.await(stopped.trainer(rank).call<&protocol::Training::stop>()));
  }
  ASSERT_TRUE(stopped.wait_for_ends());
  const auto step = stopped.book.ends[0].step;
  for (std::uint32_t rank = 0; rank <= workers; ++rank) {
    EXPECT_EQ(stopped.book.ends[rank].outcome, Outcome::stopped) << stopped.book.ends[rank].cause;
    EXPECT_EQ(stopped.book.ends[rank].step, step) << rank;
  }
  ASSERT_TRUE(stopped.book.shares.contains(step));

  spec["training"]["max_steps"] = step + 100;
  Cluster resumed(workers + 1, 1, protocol::Role::state_server);
  resumed.resume_from(testing::joined(stopped.book.shares[step]));
  resumed.start(spec);
  ASSERT_TRUE(resumed.wait_for_ends());
  for (std::uint32_t rank = 0; rank <= workers; ++rank) {
    EXPECT_EQ(resumed.book.ends[rank].outcome, Outcome::finished) << resumed.book.ends[rank].cause;
    EXPECT_EQ(resumed.book.ends[rank].step, step + 100) << rank;
    for (const auto& report : resumed.book.reports[rank]) {
      for (const auto& point : report.points) EXPECT_GT(point.step, step) << point.name;
    }
  }
  EXPECT_TRUE(resumed.book.shares.contains(step + 100));
}

TEST(StateServerActor, ALostOneEndsAllRanks) {
  auto spec = esync_job();
  spec["training"]["epochs"] = 1e6;
  Cluster cluster(workers + 1, 1, protocol::Role::state_server);
  cluster.start(spec);
  ASSERT_TRUE(cluster.book.wait([&] { return !cluster.book.reports[0].empty(); }));
  cluster.kill(workers);
  ASSERT_TRUE(cluster.book.wait([&] { return cluster.book.ends.contains(0) && cluster.book.ends.contains(1); }));
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    EXPECT_EQ(cluster.book.ends[rank].outcome, Outcome::failed);
    EXPECT_EQ(cluster.book.ends[rank].lost_rank, workers);
  }
}

TEST(StateServerActor, TakesItsPlaceOnly) {
  Cluster cluster(workers + 1, 1, protocol::Role::server);  // a server is asked for, and a state server is needed
  auto wrong = cluster.assignment(esync_job(), workers);
  const auto served = cluster.await(cluster.trainer(workers).call<&protocol::Training::prepare>(wrong));
  ASSERT_FALSE(served);
  EXPECT_NE(served.error().message().find("\"esync\" has no use for a server"), std::string::npos)
      << served.error().message();
  Cluster alone(1, 1, protocol::Role::state_server);
  wrong.role = protocol::Role::state_server;
  wrong.rank = 1;
  const auto worker = alone.await(alone.trainer(0).call<&protocol::Training::prepare>(wrong));
  ASSERT_FALSE(worker);
  EXPECT_NE(worker.error().message().find("workers are the first ranks"), std::string::npos)
      << worker.error().message();
}

}  // namespace
}  // namespace weir::actors
