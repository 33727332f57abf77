// What an attempt at a job commits, and when: each transition is one change of the store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

using Commit = std::vector<Change>;

template <class T>
std::vector<T> all_of(const Commit& commit) {
  std::vector<T> found;
  for (const auto& change : commit) {
    if (const auto* one = std::get_if<T>(&change)) found.push_back(*one);
  }
  return found;
}

std::vector<EventRecord> events_of(const Commit& commit, const std::string& kind) {
  std::vector<EventRecord> found;
  for (auto& one : all_of<change::AddEvent>(commit)) {
    if (one.event.kind == kind) found.push_back(std::move(one.event));
  }
  return found;
}

/// The records of workers in a commit that are in that state, by rank.
std::set<std::uint32_t> ranks_in(const Commit& commit, WorkerState state) {
  std::set<std::uint32_t> ranks;
  for (const auto& one : all_of<change::PutWorker>(commit)) {
    if (one.worker.state == state) ranks.insert(one.worker.rank);
  }
  return ranks;
}

/// Whenever the record of a job shows another state or phase than before, the same commit tells of it in an event.
/// Whatever is told of a worker's end comes with its record.
void expect_whole_transitions(const CommitLog& log, const std::string& job_id) {
  std::optional<std::pair<JobState, JobPhase>> before;
  for (const auto& commit : log.commits()) {
    for (const auto& put : all_of<change::PutJob>(commit)) {
      if (put.job.id != job_id) continue;
      const std::pair now{put.job.state, put.job.phase};
      if (before && *before != now) {
        const auto told = events_of(commit, "job.phase").size() + events_of(commit, "job.state").size() +
                          events_of(commit, "job.restart").size();
        EXPECT_EQ(told, 1u) << to_string(put.job.state) << " " << to_string(put.job.phase);
        EXPECT_FALSE(all_of<change::PutWorker>(commit).empty()) << "with what the workers are then";
      }
      before = now;
    }
    for (const auto& kind : {"worker.exited", "worker.failed", "worker.unknown"}) {
      for (const auto& event : events_of(commit, kind)) {
        EXPECT_THAT(ranks_in(commit, WorkerState::exited), Contains(*event.worker)) << event.message;
      }
    }
    EXPECT_EQ(events_of(commit, "checkpoint.saved").size(), all_of<change::AddCheckpoint>(commit).size());
  }
}

TEST(Attempt, EachTransitionIsOneCommit) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 5;
  cluster.script.steps = 20;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["a"]->kill(0);
  ASSERT_EQ(cluster.await_end(id).state, JobState::succeeded);
  expect_whole_transitions(*cluster.store, id);
}

TEST(Attempt, AJobThatIsRestartedKeepsItsStepUntilAllWorkersHaveReported) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 20;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["a"]->kill(0);
  cluster.await_end(id);
  std::set<std::uint64_t> steps;
  for (const auto& commit : cluster.store->commits()) {
    for (const auto& put : all_of<change::PutJob>(commit)) {
      if (put.job.restarts == 1) steps.insert(put.job.step);
    }
  }
  EXPECT_THAT(steps, testing::Not(Contains(0u)));
  EXPECT_THAT(steps, testing::IsSupersetOf({1u, 20u})) << "those of the second attempt";
}

TEST(Attempt, AWorkersEndIsCommittedWithItsFigures) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["a"]->kill(1);
  cluster.await_end(id);
  std::size_t ends = 0;
  for (const auto& commit : cluster.store->commits()) {
    for (const auto& event : events_of(commit, "worker.exited")) {
      if (event.worker != 1u) continue;
      ++ends;
      const auto record = all_of<change::PutWorker>(commit).at(0).worker;
      EXPECT_EQ(record.state, WorkerState::exited);
      EXPECT_TRUE(record.ended_at);
      EXPECT_EQ(record.signal, 9);
      EXPECT_GE(record.step, 12u);
      EXPECT_GT(record.figures["bytes_sent"], 0);
    }
  }
  EXPECT_EQ(ends, 1u);
}

TEST(Attempt, AProcessThatCannotBeStartedIsRecordedAtOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.spawners["a"]->fail_next({Errc::io, "no such program"});
  const auto id = cluster.submit_job(2);
  cluster.await_end(id);
  std::vector<std::string> told;
  for (const auto& commit : cluster.store->commits()) {
    for (const auto& event : events_of(commit, "worker.failed")) told.push_back(event.message);
  }
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("no such program")));
  expect_whole_transitions(*cluster.store, id);
}

TEST(Attempt, ANodeIsLostTogetherWithItsWorkers) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.add_node("b", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(3);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  std::set<std::uint32_t> on_b;
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(id)).value()) {
    if (worker.node == "b") on_b.insert(worker.rank);
  }
  cluster.node_processes["b"]->stop();
  cluster.await_end(id);
  std::size_t losses = 0;
  for (const auto& commit : cluster.store->commits()) {
    if (events_of(commit, "node.lost").empty()) continue;
    ++losses;
    EXPECT_EQ(all_of<change::PutNode>(commit).at(0).node.state, NodeState::lost);
    EXPECT_EQ(ranks_in(commit, WorkerState::exited), on_b);
  }
  EXPECT_EQ(losses, 1u);
  expect_whole_transitions(*cluster.store, id);
}

TEST(Attempt, NothingIsStartedBeforeTheAttemptIsCommitted) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  cluster.store->hold([](const Commit& commit) { return !events_of(commit, "job.phase").empty(); });
  const auto id = cluster.submit_job(2);
  cluster.simulation.pass(500ms);
  EXPECT_EQ(cluster.processes(), 0u) << "its fence is not known to be safe";
  cluster.store->release();
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
}

TEST(Attempt, WorkersAreAskedToStopOnceThatIsCommitted) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  cluster.await_phase(id, JobPhase::training);
  cluster.store->hold([](const Commit& commit) { return !all_of<change::PutFence>(commit).empty(); });  // of its step
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(2s);
  const auto step = cluster.job(id).step;
  cluster.simulation.pass(2s);
  EXPECT_GT(cluster.job(id).step, step) << "it still trains";
  cluster.store->release();
  EXPECT_EQ(cluster.await_end(id).state, JobState::stopped);
}

TEST(Attempt, AStopThatComesWhileTheFinalModelIsEvaluatedChangesNothing) {
  for (const auto evaluation : {30s, 300s}) {
    FakeCluster cluster;
    cluster.add_node("a", 2);
    cluster.script.evaluation = evaluation;
    const auto id = cluster.submit_job(2);
    ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
    ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
    const auto ended = cluster.await_end(id);
    EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  }
}

TEST(Attempt, AnEvaluationOfTheFinalModelThatNeverEndsIsGivenUp) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.evaluation = 24h;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  ASSERT_TRUE(cluster.await_job(
      id, [](const JobRecord& job) { return terminal(job.state); }, 2h));
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
}

/// Asks the job to stop, and expects it to do so at that step, with a checkpoint.
void expect_stop_at(FakeCluster& cluster, const std::string& id, std::uint64_t step) {
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  EXPECT_EQ(ended.reason, "stopped on request at step " + std::to_string(step));
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), SizeIs(1));
}

TEST(Attempt, AStopWaitsForTheNextExchangeOfWorkersThatMakeSteps) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 1000;
  cluster.script.step_time = 5s;
  cluster.script.period = 100;
  const auto id = cluster.submit_job(2, {{"training", {{"mode", "apart"}, {"params", {{"period", 100}}}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  expect_stop_at(cluster, id, 100);
}

TEST(Attempt, AStopWaitsForAWishThatGoesFromNeighbourToNeighbour) {
  FakeCluster cluster;
  cluster.add_node("a", 40);
  cluster.script.steps = 1000;
  cluster.script.step_time = 10s;
  cluster.script.period = 40;  // the farthest in a ring of 40 are 20 edges apart, and may be as many steps, too
  const auto id = cluster.submit_job(40, {{"training", {{"mode", "mixing"}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  expect_stop_at(cluster, id, 40);
}

TEST(Attempt, AStopWaitsForStepsAsLongAsThoseBefore) {
  for (const std::uint64_t steps_before : {1U, 2U}) {
    FakeCluster cluster;
    cluster.add_node("a", 2);
    cluster.script.steps = 1000;
    cluster.script.step_time = 5min;
    const auto id = cluster.submit_job(2);
    ASSERT_TRUE(cluster.await_job(id, [&](const JobRecord& job) { return job.step == steps_before; }));
    cluster.simulation.pass(10s);
    expect_stop_at(cluster, id, steps_before + 1);
  }
}

TEST(Attempt, AStopBeforeTheFirstReportOfAResumedJobWaitsForItsWorkers) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto first = cluster.stopped_job(2);
  cluster.script.step_resumed = 5000;
  cluster.script.step_time = 20s;
  cluster.script.period = 15;
  const auto id = cluster.submit_job(2, {{"checkpoint", {{"resume_from", {{"job", first}}}}}});
  cluster.await_phase(id, JobPhase::training);
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(id)).value()) {
    EXPECT_EQ(worker.step, 5000u) << "that of the checkpoint";
  }
  expect_stop_at(cluster, id, 5010);
}

/// A job on node "a" whose two workers agree to stop at every hundredth step, and which has a checkpoint of step 40.
std::string job_at_step_45(FakeCluster& cluster) {
  cluster.add_node("a", 2);
  cluster.script.steps = 1000;
  cluster.script.checkpoint_every = 20;
  cluster.script.period = 100;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 3}}},
                                         {"training", {{"mode", "apart"}, {"params", {{"period", 100}}}}}});
  EXPECT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 45; }));
  return id;
}

TEST(Attempt, AJobThatIsAskedToStopAndThenLosesAWorkerIsStopped) {
  FakeCluster cluster;
  const auto id = job_at_step_45(cluster);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.spawners["a"]->kill(1);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  EXPECT_EQ(ended.restarts, 0u);
  EXPECT_THAT(ended.reason, HasSubstr("stopped on request; worker 1"));
  EXPECT_THAT(ended.reason, HasSubstr("; the newest checkpoint is that of step 40"));
}

TEST(Attempt, AJobThatLosesAWorkerAndIsThenAskedToStopIsStopped) {
  FakeCluster cluster;
  const auto id = job_at_step_45(cluster);
  // Its processes are not taken down before that step is committed.
  cluster.store->hold([](const Commit& commit) { return !all_of<change::PutFence>(commit).empty(); });
  cluster.spawners["a"]->kill(1);
  ASSERT_TRUE(cluster.simulation.run_until([&cluster] {
    return std::ranges::any_of(cluster.store->commits(),
                               [](const Commit& commit) { return !events_of(commit, "worker.exited").empty(); });
  }));
  const auto answer = cluster.simulation.run(cluster.head->stop_job(id));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->phase, JobPhase::stopping);
  cluster.store->release();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  EXPECT_EQ(ended.restarts, 0u);
  EXPECT_THAT(ended.reason, HasSubstr("stopped on request; worker 1"));
  EXPECT_THAT(ended.reason, HasSubstr("; the newest checkpoint is that of step 40"));
}

TEST(Attempt, AJobThatIsStoppedAtALossNamesTheCheckpointOfAnEarlierAttempt) {
  FakeCluster cluster;
  const auto id = job_at_step_45(cluster);
  cluster.script.step_resumed = 40;
  cluster.spawners["a"]->kill(1);
  ASSERT_TRUE(
      cluster.await_job(id, [](const JobRecord& job) { return job.restarts == 1 && job.phase == JobPhase::training; }));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.spawners["a"]->kill(3);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  EXPECT_THAT(ended.reason, HasSubstr("; the newest checkpoint is that of step 40"));
}

TEST(Attempt, AStopDoesNotWaitForWorkersThatNeverAgree) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  cluster.script.step_time = 5s;
  cluster.script.ignore_stop = true;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  EXPECT_EQ(ended.reason, "stopped on request; the workers did not agree on a step in time; there is no checkpoint");
  EXPECT_LT(ended.step, 60u);
}

TEST(Attempt, AStoppedJobThatHasItsCheckpointDoesNotSpeakOfAnOlderOne) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  cluster.script.checkpoint_every = 1;
  cluster.script.evaluation = 5min;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped);
  const auto newest = cluster.simulation.run(cluster.head->checkpoints(id)).value().back().step;
  EXPECT_EQ(ended.reason, "stopped on request at step " + std::to_string(newest));
}

TEST(Attempt, ALargeCheckpointOfAStopOutlivesALinkThatBreaksOnTheWay) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 100'000;
  cluster.script.share_values = 2'000'000;
  const auto id = cluster.submit_job(1);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  cluster.simulation.transport().limit_rate(30'000);  // 270 s for the share
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(200s);
  cluster.simulation.transport().cut();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::stopped) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("stopped on request at step"));
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::SizeIs(1));
}

TEST(Attempt, AShareInSeveralPiecesArrivesAsItWasAlsoWhenLinksBreakBetweenThem) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.checkpoint_every = 10;
  cluster.script.share_values = 5'000'000;  // 20 MB: three pieces
  cluster.simulation.transport().limit_rate(1'000'000);
  const auto id = cluster.submit_job(1);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
  const auto before = cluster.simulation.clock().now();
  for (int i = 0; i < 2; ++i) {
    cluster.simulation.pass(10s);  // in the second piece, then in the third one
    cluster.simulation.transport().cut();
  }
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_LT(cluster.simulation.clock().now() - before, 35s) << "20 s for the share: what was there is not sent again";
  const auto checkpoints = cluster.simulation.run(cluster.head->checkpoints(id)).value();
  ASSERT_THAT(checkpoints, testing::SizeIs(1));
  EXPECT_EQ(checkpoints[0].step, 10u);
  EXPECT_GT(checkpoints[0].bytes, 20'000'000u);
}

TEST(Attempt, AWorkerThatIsLostHalfWayThroughItsShareLeavesNoCheckpointAndTheNextAttemptSendsAnew) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.checkpoint_every = 10;
  cluster.script.share_values = 5'000'000;
  cluster.simulation.transport().limit_rate(1'000'000);
  const auto id = cluster.submit_job(1, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
  cluster.simulation.pass(10s);  // it is in the second piece
  cluster.spawners["a"]->kill(0);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.restarts == 1; }));
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::IsEmpty());
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::SizeIs(1));
}

TEST(Attempt, AWorkerThatIsLostAfterItsEndIsNotMissed) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.add_node("b", 1);
  cluster.script.evaluation = 1min;
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive) && cluster.await_node("b", NodeState::alive));
  const auto id = cluster.submit_job(2, {{"resources", {{"placement", "spread"}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
  cluster.simulation.pass(2s);
  cluster.spawners["b"]->kill(0);
  cluster.remove_node("b");
  ASSERT_TRUE(cluster.await_node("b", NodeState::lost));
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
}

TEST(Attempt, AWorkerThatCannotReachItsPeersSaysSoAtOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.script.start_fails[0] = {Errc::peer_lost, "rank 1 at 10.0.0.2:7000 does not answer"};
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(
      id, [](const JobRecord& job) { return terminal(job.state); }, 6s));
  EXPECT_THAT(cluster.job(id).reason, HasSubstr("cannot begin with its peers: "));
  EXPECT_THAT(cluster.job(id).reason, HasSubstr("rank 1 at 10.0.0.2:7000 does not answer"));
}

}  // namespace
}  // namespace weir::cluster
