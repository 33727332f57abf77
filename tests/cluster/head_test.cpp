#include "cluster/head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "base/errc.hpp"
#include "cluster/store/sqlite.hpp"
#include "protocol/safetensors.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> kinds(FakeCluster& cluster, const std::string& job_id) {
  std::vector<std::string> found;
  const auto page = cluster.simulation.run(cluster.head->events({.job_id = job_id, .limit = 1000})).value();
  for (const auto& event : page.events) found.push_back(event.kind);
  return found;
}

double used_cpu(FakeCluster& cluster, const std::string& node) {
  const auto used = cluster.node(node).used;
  return used.contains("cpu") ? used.at("cpu") : 0;
}

TEST(Head, AJobGoesFromSubmitToSucceeded) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.add_node("b", 2);
  const auto id = cluster.submit_job(4);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.step, 10u);
  EXPECT_EQ(ended.steps_total, 10u);
  EXPECT_EQ(ended.summary["accuracy"], 0.5);
  EXPECT_EQ(ended.summary["bytes_sent"], 4000);
  EXPECT_EQ(ended.summary["compression_ratio"], 200);
  EXPECT_GE(ended.summary["first_step_seconds"], 0);
  EXPECT_TRUE(ended.started_at && ended.ended_at);
  EXPECT_EQ(cluster.processes(), 0u);
  EXPECT_EQ(used_cpu(cluster, "a") + used_cpu(cluster, "b"), 0);
  const auto workers = cluster.simulation.run(cluster.head->workers(id)).value();
  ASSERT_THAT(workers, SizeIs(4));
  EXPECT_EQ(workers[3].step, 10u);
  EXPECT_EQ(workers[3].state, WorkerState::exited);
  EXPECT_EQ(workers[3].figures["bytes_sent"], 1000);
}

TEST(Head, EverythingAWorkerSaysIsKept) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  MetricQuery query;
  query.job_id = id;
  query.names = {"loss", "accuracy", "compression_ratio"};
  const auto series = cluster.simulation.run(cluster.head->metrics(query)).value();
  ASSERT_THAT(series, SizeIs(5));
  EXPECT_EQ(series[0].name, "accuracy");
  EXPECT_FALSE(series[0].worker);
  EXPECT_EQ(series[1].name, "compression_ratio");
  EXPECT_EQ(series[2].name, "loss");
  EXPECT_FALSE(series[2].worker);
  ASSERT_THAT(series[2].points, SizeIs(10));
  EXPECT_DOUBLE_EQ(series[2].points[0].last, (1.0 + 0.5) / 2) << "the job's loss is the mean over its workers";
  EXPECT_EQ(series[4].worker, 1u);
  const auto log = cluster.simulation.run(cluster.head->logs(id, 1, 0, 1000)).value();
  EXPECT_EQ(log.text, "rank 1 is ready\n");
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.next, log.size);
  EXPECT_EQ(cluster.simulation.run(cluster.head->logs(id, 2, 0, 1000)).error().code, Errc::not_found);
  const auto sizes = cluster.simulation.run(cluster.head->log_sizes(id)).value();
  ASSERT_THAT(sizes, SizeIs(2));
  EXPECT_EQ(sizes[1].worker, 1u);
  EXPECT_EQ(sizes[1].size, log.size);
}

TEST(Head, ARepeatedReportCountsOnce) {
  FakeCluster cluster;
  cluster.script.repeat_reports = true;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  MetricQuery query;
  query.job_id = id;
  query.names = {"loss"};
  for (const auto& series : cluster.simulation.run(cluster.head->metrics(query)).value()) {
    EXPECT_THAT(series.points, SizeIs(10));
  }
}

TEST(Head, AKilledWorkerFailsTheJobAtOnceAndIsNamed) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.add_node("b", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(4, {{"resources", {{"placement", "spread"}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step > 3; }));
  const auto pid = cluster.spawners["b"]->children()[1].pid();
  cluster.spawners["b"]->children()[1].print("out of luck\n");
  const auto before = cluster.simulation.clock().now();
  cluster.spawners["b"]->kill(1);
  const auto ended = cluster.await_end(id);
  EXPECT_LT(cluster.simulation.clock().now() - before, 8s);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, AllOf(HasSubstr("worker 3 on node b"), HasSubstr("process " + std::to_string(pid)),
                                  HasSubstr("signal 9"), HasSubstr("out of luck")));
  EXPECT_EQ(cluster.processes(), 0u);
  EXPECT_EQ(used_cpu(cluster, "a") + used_cpu(cluster, "b"), 0);
  cluster.script.steps = 3;
  EXPECT_EQ(cluster.await_end(cluster.submit_job(4)).state, JobState::succeeded) << "the slots are free again";
}

TEST(Head, AWorkerThatExitsTooEarlyFailsTheJob) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.hang_in_boot = true;
  const auto id = cluster.submit_job(2);
  cluster.await_phase(id, JobPhase::spawning);
  cluster.simulation.pass(1s);
  cluster.spawners["a"]->children()[0].exit(127);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, AllOf(HasSubstr("worker 0 on node a"), HasSubstr("exited with code 127")));
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(Head, ATrainerThatCannotBeginSaysWhy) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.prepare_fails = Error{Errc::not_found, "no file train.gz; install dataset-fashion-mnist"};
  const auto ended = cluster.await_end(cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 3}}}}));
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_EQ(ended.restarts, 0u) << "trying again would not help";
  EXPECT_THAT(ended.reason, HasSubstr("install dataset-fashion-mnist"));
}

TEST(Head, TheCauseOfAJobIsThatOfTheRankThatFailedAndNotThatOfThoseItEnded) {
  for (const std::uint32_t culprit : {0u, 2u}) {
    FakeCluster cluster;
    cluster.add_node("a", 3);
    const std::string cause = "bucket 4: payload of rank 1: a payload whose checksum does not fit";
    cluster.script.fails = [&](std::uint32_t rank) {
      protocol::TrainingEnd end;
      end.consequence = rank != culprit;
      end.cause = rank == culprit ? cause : "bucket 4: rank " + std::to_string(culprit) + " has given up bucket 4";
      return std::optional(end);
    };
    const auto ended = cluster.await_end(cluster.submit_job(3, {{"fault_tolerance", {{"max_restarts", 3}}}}));
    EXPECT_EQ(ended.state, JobState::failed);
    EXPECT_EQ(ended.restarts, 0u) << "nobody was lost";
    EXPECT_THAT(ended.reason, AllOf(HasSubstr("worker " + std::to_string(culprit) + " on node a"), HasSubstr(cause)));
    EXPECT_THAT(ended.reason, ::testing::Not(HasSubstr("given up")));
  }
}

TEST(Head, AProcessThatCannotBeStartedFailsTheJob) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.spawners["a"]->fail_next({Errc::io, "/weir-worker: No such file or directory"});
  const auto ended = cluster.await_end(cluster.submit_job(2));
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, AllOf(HasSubstr("could not be started on node a"), HasSubstr("No such file")));
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(Head, ALostWorkerIsReplacedFromTheNewestCheckpointIfRestartsAreLeft) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 5;
  cluster.script.steps = 20;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["a"]->kill(0);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  ASSERT_THAT(cluster.script.resumed, SizeIs(4));
  EXPECT_TRUE(cluster.script.resumed[1].part.empty());
  EXPECT_FALSE(cluster.script.resumed[3].part.empty());
  EXPECT_THAT(kinds(cluster, id), testing::Contains("job.restart"));
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(Head, ARestartedJobGoesOnCountingTimeAndBytesAndTellsEachStepOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 20;  // no checkpoint: all of them are done again
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["a"]->kill(0);
  const auto ended = cluster.await_end(id);
  ASSERT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_GE(ended.summary["bytes_sent"], 2 * (1200 + 2000));
  EXPECT_EQ(ended.summary["compression_ratio"], 200);

  MetricQuery query;
  query.job_id = id;
  query.names = {"bytes_sent", "loss"};
  for (const auto& series : cluster.simulation.run(cluster.head->metrics(query)).value()) {
    ASSERT_THAT(series.points, SizeIs(20)) << series.name;
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(series.points[i].x, static_cast<double>(i + 1)) << series.name;
  }
  for (const auto axis : {MetricAxis::wall, MetricAxis::bytes}) {
    query.x = axis;
    for (const auto& series : cluster.simulation.run(cluster.head->metrics(query)).value()) {
      EXPECT_THAT(series.points, SizeIs(testing::Ge(12u + 20u))) << "what was spent on the lost steps is told too";
      for (std::size_t i = 1; i < series.points.size(); ++i) {
        EXPECT_GT(series.points[i].x, series.points[i - 1].x) << series.name << " by " << to_string(axis);
        if (series.name != "bytes_sent") continue;
        EXPECT_GT(series.points[i].last, series.points[i - 1].last);
      }
    }
  }
  query.names = {"accuracy", "loss"};  // what belongs to no rank stands where the job's own figures stand
  const auto series = cluster.simulation.run(cluster.head->metrics(query)).value();
  ASSERT_EQ(series[0].name, "accuracy");
  ASSERT_FALSE(series[1].worker);
  EXPECT_NEAR(series[0].points.back().x, series[1].points.back().x, 400);
}

struct StopCase {
  const char* name;
  std::function<void(TrainerScript&)> prepare;
  JobPhase phase;
  friend std::ostream& operator<<(std::ostream& out, const StopCase& one) { return out << one.name; }
};

class StopIn : public ::testing::TestWithParam<StopCase> {};

TEST_P(StopIn, EndsStoppedWithNothingLeft) {
  FakeCluster cluster;
  GetParam().prepare(cluster.script);
  if (GetParam().phase != JobPhase::queued) cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  ASSERT_EQ(cluster.await_phase(id, GetParam().phase).phase, GetParam().phase);
  const auto told = cluster.simulation.run(cluster.head->stop_job(id)).value();
  EXPECT_TRUE(told.phase == JobPhase::stopping || told.state == JobState::stopped);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id))) << "twice is no error";
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("stopped on request"));
  EXPECT_EQ(cluster.processes(), 0u);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id))) << "nor after the end";
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
}

INSTANTIATE_TEST_SUITE_P(
    Phases, StopIn,
    ::testing::Values(StopCase{"queued", [](TrainerScript&) {}, JobPhase::queued},
                      StopCase{"spawning", [](TrainerScript& s) { s.hang_in_boot = true; }, JobPhase::spawning},
                      StopCase{"initialising", [](TrainerScript& s) { s.hang_in_prepare = true; },
                               JobPhase::initialising},
                      StopCase{"training", [](TrainerScript& s) { s.steps = 100'000; }, JobPhase::training},
                      StopCase{"unwilling",
                               [](TrainerScript& s) {
                                 s.steps = 100'000;
                                 s.step_time = 2s;
                                 s.ignore_stop = true;
                               },
                               JobPhase::training}),
    [](const auto& info) { return info.param.name; });

TEST(Head, AStoppedJobLeavesACheckpointToGoOnFrom) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto first = cluster.stopped_job(2);
  const auto checkpoints = cluster.simulation.run(cluster.head->checkpoints(first)).value();
  ASSERT_THAT(checkpoints, SizeIs(1));
  const auto path = cluster.simulation.run(cluster.head->checkpoint_path(first, checkpoints[0].step)).value();
  EXPECT_EQ(std::filesystem::file_size(path), checkpoints[0].bytes);

  cluster.script.steps = 5;
  const auto second = cluster.submit_job(2, {{"checkpoint", {{"resume_from", {{"job", first}}}}}});
  EXPECT_EQ(cluster.await_end(second).state, JobState::succeeded);
  ASSERT_THAT(cluster.script.resumed, SizeIs(4));
  for (const auto& [rank, part] : std::span(cluster.script.resumed).subspan(2)) {
    const auto file = protocol::read_safetensors(part).value();
    EXPECT_NE(file.find("model.weight"), nullptr) << rank;
    EXPECT_EQ(file.find("rank.1.memory") != nullptr, rank == 1) << rank;
  }

  const auto other =
      cluster.submit(FakeCluster::spec(1, {{"checkpoint", {{"resume_from", {{"job", first}, {"step", 99'999}}}}}}));
  ASSERT_THAT(other.problems, SizeIs(2));
  EXPECT_EQ(other.problems[0].pointer, "/checkpoint/resume_from/step");
  EXPECT_EQ(other.problems[1].message, "the checkpoint is of 2 workers, and the job has 1 worker");
  const auto done = cluster.submit(FakeCluster::spec(
      2, {{"training", {{"max_steps", checkpoints[0].step}}}, {"checkpoint", {{"resume_from", {{"job", first}}}}}}));
  ASSERT_THAT(done.problems, SizeIs(1)) << "nothing would be left to do";
  EXPECT_EQ(done.problems[0].pointer, "/checkpoint/resume_from/step");
}

TEST(Head, AJobGoesOnFromOneThatAnEarlierVersionHasStored) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.kill_head();
  {
    Database database(cluster.dir.path() / "now" / "weir.db", false);
    const std::string key = "'$.compression.aggregation'";  // as if it was not there yet
    ASSERT_EQ(database.integer("SELECT count(*) FROM jobs WHERE json_extract(spec, " + key + ") NOT NULL"), 1);
    database.execute("UPDATE jobs SET spec = json_remove(spec, " + key + ")");
  }
  cluster.start_head();
  cluster.script.steps = 5;
  const auto second = cluster.submit(FakeCluster::spec(1, {{"checkpoint", {{"resume_from", {{"job", first}}}}}}));
  ASSERT_THAT(second.problems, IsEmpty()) << second.problems[0].message;
  EXPECT_EQ(cluster.await_end(second.job->id).state, JobState::succeeded);
}

TEST(Head, AJobGoesOnWithExamplesOfTheSameShape) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  const auto with = [&](const json& dataset) {
    return cluster.submit(FakeCluster::spec(1, {{"dataset", dataset},
                                                {"training", {{"max_steps", 200'000}}},
                                                {"checkpoint", {{"resume_from", {{"job", first}}}}}}));
  };
  EXPECT_THAT(with({{"name", "mnist"}}).problems, IsEmpty());
  const auto other = with({{"name", "cifar10"}, {"path", "/data"}}).problems;
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_EQ(other[0].pointer, "/checkpoint/resume_from");
  EXPECT_EQ(other[0].message, "/dataset must have examples of the shape that job " + first +
                                  "'s have: \"conv1.weight\" is 20 x 1 x 5 x 5 there and would be 20 x 3 x 5 x 5 here");
}

TEST(Head, OldCheckpointsArePruned) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 2;
  const auto id = cluster.submit_job(2, {{"checkpoint", {{"keep", 2}}}});
  cluster.await_end(id);
  const auto checkpoints = cluster.simulation.run(cluster.head->checkpoints(id)).value();
  ASSERT_THAT(checkpoints, SizeIs(2));
  EXPECT_EQ(checkpoints[0].step, 8u);
  EXPECT_EQ(checkpoints[1].step, 10u);
  std::size_t files = 0;
  const auto dir = cluster.simulation.run(cluster.head->checkpoint_path(id, 10)).value().parent_path();
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++files;
  EXPECT_EQ(files, 2u);
}

TEST(Head, JobsWaitForRoomInTheOrderOfPriorityAndAge) {
  FakeCluster cluster;
  const auto impossible = cluster.submit_job(1, {{"resources", {{"per_worker", {{"gpu", 1}}}}}});
  const auto low = cluster.submit_job(2);
  const auto high = cluster.submit_job(2, {{"resources", {{"priority", 5}}}});
  EXPECT_THAT(cluster.job(low).reason, HasSubstr("no node has joined"));
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_job(high, [](const JobRecord& job) { return job.state == JobState::running; }));
  EXPECT_EQ(cluster.job(low).state, JobState::pending);
  EXPECT_THAT(cluster.job(low).reason, HasSubstr("waits for room"));
  EXPECT_THAT(cluster.job(impossible).reason, AllOf(HasSubstr("node a lacks gpu"), HasSubstr("add a node with")));
  EXPECT_EQ(cluster.await_end(high).state, JobState::succeeded);
  EXPECT_EQ(cluster.await_end(low).state, JobState::succeeded);
  EXPECT_EQ(cluster.job(impossible).state, JobState::pending);
}

/// The job items on the stream until now, kept ones and transient ones, as "kept" or "transient" and the reason.
std::vector<std::string> job_items(FakeCluster& cluster, Subscription& stream) {
  std::vector<std::string> found;
  for (;;) {
    const auto batch = cluster.simulation.run(stream.next(1ms)).value();
    if (batch.items.empty()) return found;
    for (const auto& item : batch.items) {
      if (item.kind != StreamKind::job) continue;
      const auto reason = json::parse(item.data)["reason"];
      found.push_back((item.sequence == 0 ? "transient: " : "kept: ") +
                      (reason.is_null() ? std::string("none") : reason.get<std::string>()));
    }
  }
}

TEST(Head, WhyAJobWaitsIsMadeWhenItIsReadAndNeverStored) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 1'000'000;  // the first job does not end in this test
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  auto stream = cluster.simulation.run(cluster.head->subscribe(Topics::parse("jobs").value(), 0)).value();
  job_items(cluster, *stream);
  cluster.submit_job(2);
  cluster.submit_job(2);
  const auto last = cluster.submit(FakeCluster::spec(1));
  const auto waits = last.job->id;
  EXPECT_THAT(last.job->reason, HasSubstr("waits for room for 1 worker"));
  cluster.simulation.pass(10ms);
  EXPECT_THAT(cluster.job(waits).reason, HasSubstr("waits for room for 1 worker"));
  const auto page = cluster.simulation.run(cluster.head->jobs({})).value();
  EXPECT_EQ(page.jobs[0].reason, cluster.job(waits).reason);
  EXPECT_THAT(page.jobs[1].reason, HasSubstr("waits for room for 2 workers"));
  EXPECT_EQ(cluster.simulation.run(cluster.store->job(waits)).value()->reason, "");

  cluster.simulation.pass(3s);
  EXPECT_EQ(cluster.job(waits).state, JobState::pending);
  const auto items = job_items(cluster, *stream);
  EXPECT_THAT(items, testing::Not(testing::Contains(testing::AllOf(HasSubstr("kept"), HasSubstr("waits")))));
  EXPECT_THAT(items, testing::Contains(HasSubstr("transient: waits for room for 1 worker")))
      << "who watches it is told";
}

TEST(Head, LabelsDecideWhichNodesTakeAJob) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  cluster.add_node("b", 4, 0, {{"zone", "north"}});
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  ASSERT_TRUE(cluster.await_node("b", NodeState::alive));
  cluster.simulation.pass(1s);
  const auto north = cluster.submit_job(2, {{"resources", {{"labels", {{"zone", "north"}}}}}});
  EXPECT_EQ(cluster.await_end(north).state, JobState::succeeded);
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(north)).value()) EXPECT_EQ(worker.node, "b");
  const auto south = cluster.submit_job(1, {{"resources", {{"labels", {{"zone", "south"}}}}}});
  EXPECT_THAT(cluster.job(south).reason, AllOf(HasSubstr("node a lacks label zone=south"),
                                               HasSubstr("node b lacks label zone=south (it has zone=north)")));
  cluster.add_node("c", 1, 0, {{"zone", "south"}});
  EXPECT_EQ(cluster.await_end(south).state, JobState::succeeded);
}

TEST(Head, SubmittingTwiceWithOneKeyMakesOneJob) {
  FakeCluster cluster;
  const auto first = cluster.submit(FakeCluster::spec(1), "key");
  EXPECT_TRUE(first.created);
  const auto again = cluster.submit(FakeCluster::spec(1), "key");
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.job->id, first.job->id);
  const auto other = cluster.simulation.run(cluster.head->submit(FakeCluster::spec(2), "key"));
  EXPECT_EQ(other.error().code, Errc::conflict);
  EXPECT_THAT(cluster.simulation.run(cluster.head->jobs({}))->jobs, SizeIs(1));
}

TEST(Head, ARefusedSpecMakesNoJob) {
  FakeCluster cluster;
  const auto refused = cluster.submit({{"model", {{"name", "lenett"}}}, {"dataset", {{"name", "fashion-mnist"}}}}, "k");
  EXPECT_FALSE(refused.job);
  EXPECT_THAT(refused.problems, SizeIs(1));
  EXPECT_TRUE(cluster.submit(FakeCluster::spec(1), "k").created) << "nor does it use up the key";
}

TEST(Head, ValidateTellsPlacementAndCost) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  const auto fits = cluster.simulation.run(cluster.head->validate(FakeCluster::spec(2))).value();
  EXPECT_EQ(fits.placement["fits"], true);
  EXPECT_EQ(fits.placement["workers"][1], (json{{"rank", 1}, {"role", "worker"}, {"node", "a"}}));
  EXPECT_EQ(fits.round["parameters"], 431'080);
  EXPECT_EQ(fits.round["bytes_dense"], 4 * 431'080);
  EXPECT_EQ(fits.round["bytes_sent"], 4 * 431'080);
  EXPECT_THAT(fits.warnings, IsEmpty());
  EXPECT_EQ(fits.spec["training"]["mode"], "sync");
  const auto large = cluster.simulation.run(cluster.head->validate(FakeCluster::spec(3))).value();
  EXPECT_EQ(large.placement["fits"], false);
  EXPECT_THAT(large.placement["reason"], HasSubstr("ask for 2 workers"));
}

TEST(Head, OnlyEndedJobsAreRemoved) {
  FakeCluster cluster;
  const auto id = cluster.submit_job(1);
  EXPECT_EQ(cluster.simulation.run(cluster.head->remove_job(id)).error().code, Errc::conflict);
  cluster.simulation.run(cluster.head->stop_job(id)).value();
  EXPECT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
  EXPECT_EQ(cluster.simulation.run(cluster.head->job(id)).error().code, Errc::not_found);
  EXPECT_EQ(cluster.simulation.run(cluster.head->remove_job(id)).error().code, Errc::not_found);
}

TEST(Head, AfterBeingKilledItServesHistoryAndGoesOn) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto done = cluster.submit_job(2);
  cluster.await_end(done);
  cluster.script.steps = 100'000;
  const auto ran = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(ran, [](const JobRecord& job) { return job.step >= 3; }));
  const auto waits = cluster.submit_job(1);
  cluster.kill_head();
  cluster.script.steps = 3;
  cluster.start_head();
  EXPECT_EQ(cluster.job(done).state, JobState::succeeded);
  EXPECT_EQ(cluster.job(ran).state, JobState::failed);
  EXPECT_THAT(cluster.job(ran).reason, HasSubstr("the head restarted"));
  EXPECT_GE(cluster.job(ran).step, 3u);
  EXPECT_EQ(cluster.await_end(waits).state, JobState::succeeded) << "the node joined again by itself";
  EXPECT_EQ(cluster.processes(), 0u);
  EXPECT_EQ(cluster.node("a").state, NodeState::alive);
}

TEST(Head, ALostNodeThatIsForgottenIsRemovedFromTheStore) {
  FakeCluster cluster;
  std::vector<Change> changes;
  for (int i = 0; i < 201; ++i) {
    NodeRecord lost;
    lost.id = std::to_string(1000 + i);
    lost.name = "n" + std::to_string(i);
    lost.state = NodeState::lost;
    changes.push_back(change::PutNode{lost});
  }
  ASSERT_TRUE(cluster.simulation.run(cluster.store->commit(std::move(changes))));
  cluster.kill_head();
  cluster.start_head();
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.remove_node("a");
  ASSERT_TRUE(cluster.await_node("a", NodeState::lost));
  const auto kept = cluster.simulation.run(cluster.store->nodes()).value();
  EXPECT_THAT(kept, SizeIs(201)) << "200 that are lost for long, and one that may come back";
  EXPECT_TRUE(std::ranges::none_of(kept, [](const NodeRecord& node) { return node.name == "n0"; }));
  EXPECT_TRUE(std::ranges::any_of(kept, [](const NodeRecord& node) { return node.name == "a"; }));
}

TEST(Head, TellsThoseWhoGoOnReadingWhichNodesHaveNotJoinedSinceARestart) {
  FakeCluster cluster;
  auto before = cluster.simulation.run(cluster.head->subscribe(Topics::parse("cluster").value(), 0)).value();
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto read = cluster.simulation.run(before->next(1ms)).value();
  cluster.kill_head();
  cluster.remove_node("a");
  cluster.start_head();
  auto after = cluster.simulation.run(cluster.head->subscribe(Topics::parse("cluster").value(), read.sequence)).value();
  const auto batch = cluster.simulation.run(after->next(1ms)).value();
  ASSERT_THAT(batch.items, SizeIs(1));
  EXPECT_EQ(batch.items[0].kind, StreamKind::node);
  const auto node = json::parse(batch.items[0].data);
  EXPECT_EQ(node.at("name"), "a");
  EXPECT_EQ(node.at("state"), "lost");
  EXPECT_EQ(node.at("reason"), "the head was restarted; the node has not joined since");
}

TEST(Head, TheStreamTellsAJobsWholeLifeOnce) {
  FakeCluster cluster;
  auto stream = cluster.simulation.run(cluster.head->subscribe(Topics::parse("jobs").value(), 0)).value();
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  std::vector<std::string> phases;
  std::size_t ends = 0;
  std::uint64_t last = 0;
  for (;;) {
    const auto batch = cluster.simulation.run(stream->next(1ms)).value();
    if (batch.items.empty()) break;
    for (const auto& item : batch.items) {
      if (item.sequence == 0) continue;  // why it waits: told to those who watch, not kept
      EXPECT_GT(item.sequence, last);
      last = item.sequence;
      const auto phase = json::parse(item.data).at("phase").get<std::string>();
      if (phases.empty() || phases.back() != phase) phases.push_back(phase);
      if (item.kind == StreamKind::job_end) ++ends;
    }
  }
  EXPECT_THAT(phases, ElementsAre("queued", "spawning", "initialising", "training", ""));
  EXPECT_EQ(ends, 1u);
}

TEST(Head, ListsActorsByName) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  cluster.await_phase(id, JobPhase::training);
  const auto all = cluster.simulation.run(cluster.head->actors("", 1000, "")).value();
  EXPECT_THAT(all.actors, SizeIs(2 + 1 + 4));
  for (const auto& actor : all.actors) {
    const bool counted = actor.name.starts_with("head/");  // what happens in other processes nobody counts
    EXPECT_EQ(actor.mailbox_depth.has_value(), counted) << actor.name;
    EXPECT_EQ(actor.messages_handled.has_value(), counted) << actor.name;
  }
  const auto trainers = cluster.simulation.run(cluster.head->actors("trainer", 1, "")).value();
  ASSERT_THAT(trainers.actors, SizeIs(1));
  EXPECT_EQ(trainers.actors[0].job_id, id);
  EXPECT_EQ(trainers.next, trainers.actors[0].name);
  const auto rest = cluster.simulation.run(cluster.head->actors("trainer", 10, trainers.next)).value();
  EXPECT_THAT(rest.actors, SizeIs(1));
  EXPECT_EQ(rest.next, "");
}

}  // namespace
}  // namespace weir::cluster
