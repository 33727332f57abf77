#include "cluster/traffic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "cluster/store/sqlite.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;
using protocol::TrafficReport;
using testing::IsEmpty;
using testing::SizeIs;

/// A report of rank 0 or 1 of two, after `step` steps.
TrafficReport report(std::uint32_t rank, std::uint64_t step) {
  TrafficReport traffic;
  traffic.totals.step = step;
  traffic.totals.links = {{1 - rank, {100 * step, 90 * step}}};
  traffic.totals.phases = {{"pass 1", {100 * step, 90 * step}}, {"other", {}}};
  traffic.totals.tensors = {{"weight", {99 * step, 90 * step}}};
  traffic.totals.rest = {step, 0};
  traffic.sampled = protocol::StepTimeline{.step = step,
                                           .seconds = 0.25,
                                           .dropped = 1,
                                           .spans = {{.bucket = 2,
                                                      .activity = protocol::Activity::wire,
                                                      .part = 1,
                                                      .lane = 3,
                                                      .begin_seconds = 0.125,
                                                      .seconds = 0.000001,
                                                      .bytes = {100, 90}}}};
  if (step == 3) traffic.slowest = traffic.sampled;
  return traffic;
}

std::vector<WorkerTraffic> traffic_of(FakeCluster& cluster, const std::string& id) {
  return cluster.simulation.run(cluster.head->traffic(id)).value();
}

TEST(Traffic, OfAJobIsKeptAndSurvivesTheHead) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report;
  const auto id = cluster.submit_job(2);
  EXPECT_THAT(traffic_of(cluster, id), IsEmpty());
  cluster.await_end(id);
  cluster.kill_head();
  cluster.start_head();
  const auto workers = traffic_of(cluster, id);
  ASSERT_THAT(workers, SizeIs(2));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto expected = report(rank, 10);
    EXPECT_EQ(workers[rank].worker, rank);
    EXPECT_EQ(to_text(workers[rank].totals), to_text(expected.totals));
    ASSERT_TRUE(workers[rank].sampled && workers[rank].slowest);
    EXPECT_EQ(to_text(*workers[rank].sampled), to_text(*expected.sampled));
    EXPECT_EQ(workers[rank].slowest->step, 3u) << "later reports had none";
  }
  const auto& span = workers[0].sampled->spans.at(0);
  EXPECT_EQ(span.activity, protocol::Activity::wire);
  EXPECT_DOUBLE_EQ(span.begin_seconds, 0.125);
  EXPECT_DOUBLE_EQ(span.seconds, 0.000001);
  EXPECT_EQ(span.bytes, (protocol::ByteCounts{100, 90}));
}

TEST(Traffic, GoesWithTheJob) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report;
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
  EXPECT_EQ(cluster.simulation.run(cluster.head->traffic(id)).error().code, Errc::not_found);
  EXPECT_THAT(cluster.simulation.run(cluster.store->traffic(id)).value(), IsEmpty());
}

TEST(Traffic, OfAnEarlierAttemptGoesWithTheFirstReportOfTheNext) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  const auto put = [&](std::uint64_t attempt, std::uint32_t rank) {
    auto of = report(rank, 3);
    std::vector<Change> changes;
    changes.push_back(change::PutTraffic{{id, attempt, rank, of.totals, of.sampled, of.slowest}});
    ASSERT_TRUE(cluster.simulation.run(cluster.store->commit(std::move(changes))));
  };
  put(7, 0);
  put(7, 1);
  EXPECT_THAT(cluster.simulation.run(cluster.store->traffic(id)).value(), SizeIs(2));
  put(8, 1);
  const auto now = cluster.simulation.run(cluster.store->traffic(id)).value();
  ASSERT_THAT(now, SizeIs(1));
  EXPECT_EQ(now[0].attempt, 8u);
  EXPECT_EQ(now[0].worker, 1u);
}

TEST(Traffic, AForgedReportIsRefusedAndChangesNothing) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = [](std::uint32_t rank, std::uint64_t step) {
    auto forged = report(rank, step);
    if (step > 5) forged.totals.links.at(0).rank = 77;
    return forged;
  };
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  ASSERT_TRUE(cluster.script.refusal);
  EXPECT_EQ(cluster.script.refusal->code, Errc::invalid_argument);
  for (const auto& worker : traffic_of(cluster, id)) EXPECT_EQ(worker.totals.step, 5u);
  EXPECT_EQ(cluster.script.acknowledged, 5u) << "nothing of such a report counts";
}

TEST(Traffic, AFileFromBeforeItIsMigrated) {
  const TemporaryDir dir;
  const auto file = dir.path() / "weir.db";
  runtime::testing::Simulation simulation{1};
  const auto open = [&] { return open_sqlite_store({.file = file}, simulation.executor(), simulation.executor()); };
  simulation.run(open().value()->close());
  {
    Database before(file, false);
    before.execute("DROP TABLE traffic");
    before.execute("PRAGMA user_version = 1");
  }
  const auto store = open();
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_THAT(simulation.run((*store)->traffic("a")).value(), IsEmpty());
  simulation.run((*store)->close());
}

}  // namespace
}  // namespace weir::cluster
