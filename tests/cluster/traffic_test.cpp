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
using testing::ElementsAre;
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

/// What rank 0 decides: a trial, what has won, and after another measurement the same again.
TrafficReport report_with_plans(std::uint32_t rank, std::uint64_t step) {
  auto traffic = report(rank, step);
  if (rank != 0 || (step != 1 && step != 7 && step != 8)) return traffic;
  protocol::ExchangePlan plan;
  plan.step = step - 1;
  plan.reason = "the fastest by the model";
  plan.buckets = {{"coded", "ring", 4000}, {"coded", "ring", 3000}, {"float32", "tree", 40}};
  plan.latency_seconds = 0.000'05;
  plan.bytes_per_second = 117e6;
  plan.candidates = {{"coded over ring, 2 buckets; float32 over tree, 1 bucket", 0.15, 0.152, true},
                     {"bfloat16 over tree, 3 buckets", 0.2, {}}};
  traffic.plans = {plan};
  plan.reason = "on trial";
  plan.buckets = {{"bfloat16", "tree", 4000}, {"bfloat16", "tree", 3000}, {"bfloat16", "tree", 40}};
  traffic.plans.push_back(plan);
  if (step == 1) return traffic;
  plan.reason = step == 7 ? "the fastest of 2 tried: 140 ms a step" : "the fastest of 2 tried: 141 ms a step";
  plan.candidates[1].measured_seconds = 0.14;
  traffic.plans = {plan};
  return traffic;
}

/// The messages of the events that tell of plans.
std::vector<std::string> planned(FakeCluster& cluster, const std::string& id) {
  std::vector<std::string> messages;
  const auto page = cluster.simulation.run(cluster.head->events({.job_id = id, .limit = 1000})).value();
  for (const auto& event : page.events) {
    if (event.kind != "exchange.planned") continue;
    EXPECT_EQ(event.severity, Severity::info);
    messages.push_back(event.message);
  }
  return messages;
}

std::vector<WorkerTraffic> traffic_of(FakeCluster& cluster, const std::string& id) {
  return cluster.simulation.run(cluster.head->traffic({.job_id = id})).value();
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

TEST(Traffic, OnlyWhatIsAskedForIsRead) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report;
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  // A part that is not read need not be readable.
  Database(cluster.dir.path() / "now" / "weir.db", false).execute("UPDATE traffic SET totals = 'x', slowest = 'x'");
  TrafficQuery query{.job_id = id, .totals = false, .slowest = false};
  const auto both = cluster.simulation.run(cluster.head->traffic(query)).value();
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(to_text(both[1].sampled.value()), to_text(*report(1, 10).sampled));
  EXPECT_FALSE(both[1].slowest);
  query.worker = 1;
  const auto one = cluster.simulation.run(cluster.head->traffic(query)).value();
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_EQ(one[0].worker, 1u);
  EXPECT_FALSE(cluster.simulation.run(cluster.head->traffic({.job_id = id})));
}

TEST(Traffic, SpansThatFollowEachOtherDoNotOverlapInWholeMicroseconds) {
  protocol::StepTimeline timeline;
  for (int i = 0; i < 100; ++i) timeline.spans.push_back({.begin_seconds = i * 0.000'001'6, .seconds = 0.000'001'6});
  const auto kept = timeline_of(to_text(timeline));
  for (std::size_t i = 1; i < kept.spans.size(); ++i) {
    const auto& before = kept.spans[i - 1];
    EXPECT_NEAR(before.begin_seconds + before.seconds, kept.spans[i].begin_seconds, 1e-9) << i;
  }
}

TEST(Traffic, PlansOfTheExchangeAreEventsAndTheLatestIsKept) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report_with_plans;
  cluster.script.repeat_reports = true;
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  cluster.kill_head();
  cluster.start_head();
  EXPECT_THAT(planned(cluster, id),
              ElementsAre("from step 1 on: coded over ring, 2 buckets; float32 over tree, 1 bucket "
                          "(the fastest by the model)",
                          "from step 7 on: bfloat16 over tree, 3 buckets (the fastest of 2 tried: 140 ms a step)"));
  const auto workers = traffic_of(cluster, id);
  ASSERT_THAT(workers, SizeIs(2));
  ASSERT_TRUE(workers[0].plan) << "the reports after that of step 8 had none";
  EXPECT_EQ(to_text(*workers[0].plan), to_text(report_with_plans(0, 8).plans[0]));
  EXPECT_FALSE(workers[1].plan);
}

TEST(Traffic, EachAttemptTellsItsPlan) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report_with_plans;
  cluster.script.steps = 40;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 9; }));
  cluster.spawners.at("a")->kill(1);
  ASSERT_EQ(cluster.await_end(id).state, JobState::succeeded);
  const auto messages = planned(cluster, id);
  ASSERT_THAT(messages, SizeIs(4));
  EXPECT_EQ(messages[2], messages[0]);
  EXPECT_EQ(messages[3], messages[1]);
}

TEST(Traffic, APlanFromAnotherRankIsRefused) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = [](std::uint32_t rank, std::uint64_t step) {
    auto forged = report(rank, step);
    if (rank == 1) forged.plans = report_with_plans(0, 1).plans;
    return forged;
  };
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  ASSERT_TRUE(cluster.script.refusal);
  EXPECT_EQ(cluster.script.refusal->code, Errc::invalid_argument);
  EXPECT_THAT(planned(cluster, id), IsEmpty());
}

TEST(Traffic, GoesWithTheJob) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report;
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
  EXPECT_EQ(cluster.simulation.run(cluster.head->traffic({.job_id = id})).error().code, Errc::not_found);
  EXPECT_THAT(cluster.simulation.run(cluster.store->traffic({.job_id = id})).value(), IsEmpty());
}

TEST(Traffic, OfAnEarlierAttemptGoesWithTheFirstReportOfTheNext) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  const auto put = [&](std::uint64_t attempt, std::uint32_t rank) {
    std::vector<Change> changes;
    changes.push_back(change::PutTraffic{kept_of(id, attempt, rank, report(rank, 3))});
    ASSERT_TRUE(cluster.simulation.run(cluster.store->commit(std::move(changes))));
  };
  put(7, 0);
  put(7, 1);
  EXPECT_THAT(cluster.simulation.run(cluster.store->traffic({.job_id = id})).value(), SizeIs(2));
  put(8, 1);
  const auto now = cluster.simulation.run(cluster.store->traffic({.job_id = id})).value();
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
    before.execute("DROP INDEX jobs_removed");
    before.execute("ALTER TABLE jobs DROP COLUMN removed");
    before.execute("ALTER TABLE workers DROP COLUMN gpus");
    before.execute("ALTER TABLE workers DROP COLUMN role");
    before.execute("DROP TABLE traffic");
    before.execute("PRAGMA user_version = 1");
  }
  const auto store = open();
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_THAT(simulation.run((*store)->traffic({.job_id = "a"})).value(), IsEmpty());
  simulation.run((*store)->close());
}

TEST(Traffic, AFileFromBeforeThePlansKeepsWhatItHas) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.traffic = report;
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  cluster.kill_head();
  {
    Database before(cluster.dir.path() / "now" / "weir.db", false);
    before.execute("DROP INDEX jobs_removed");
    before.execute("ALTER TABLE jobs DROP COLUMN removed");
    before.execute("ALTER TABLE workers DROP COLUMN gpus");
    before.execute("ALTER TABLE workers DROP COLUMN role");
    before.execute("ALTER TABLE traffic DROP COLUMN plan");
    before.execute("PRAGMA user_version = 2");
  }
  cluster.start_head();
  const auto workers = traffic_of(cluster, id);
  ASSERT_THAT(workers, SizeIs(2));
  EXPECT_EQ(workers[0].totals.step, 10u);
  EXPECT_FALSE(workers[0].plan);
}

}  // namespace
}  // namespace weir::cluster
