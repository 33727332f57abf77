// What the head does while its store takes no commits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const auto all = [](const std::vector<Change>&) { return true; };

/// Whether they say that a job has a new checkpoint, of step 6.
bool add_step_6(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& one) {
    const auto* added = std::get_if<change::AddCheckpoint>(&one);
    return added != nullptr && added->checkpoint.step == 6;
  });
}

/// A job that saves after steps 2, 4, 6 and 8 and keeps two of these checkpoints.
std::string submit_keeping_two(FakeCluster& cluster) {
  cluster.script.checkpoint_every = 2;
  cluster.script.steps = 8;
  return cluster.submit_job(2, {{"checkpoint", {{"keep", 2}}}});
}

std::vector<std::uint64_t> steps_kept(FakeCluster& cluster, const std::string& id) {
  std::vector<std::uint64_t> steps;
  for (const auto& one : cluster.simulation.run(cluster.head->checkpoints(id)).value()) steps.push_back(one.step);
  return steps;
}

TEST(FullDisk, ADrainThatCouldNotBeCommittedIsNone) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.store->refuse(all);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a")).error().code, Errc::exhausted);
    EXPECT_EQ(cluster.node("a").state, NodeState::alive);
  }
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(cluster.submit_job(1)).state, JobState::succeeded);
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a"))->state, NodeState::draining);
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a"))->state, NodeState::draining);
  const auto events = cluster.simulation.run(cluster.head->events({.job_id = {}, .limit = 1000}))->events;
  EXPECT_EQ(std::ranges::count(events, "node.draining", &EventRecord::kind), 1) << "a repeat is no event";
}

TEST(FullDisk, CheckpointsThatCouldNotBePrunedArePrunedWithTheNextOne) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 2;
  cluster.store->refuse(add_step_6);  // where step 2 is to go
  const auto id = cluster.submit_job(2, {{"checkpoint", {{"keep", 2}}}});
  cluster.await_end(id);
  const auto checkpoints = cluster.simulation.run(cluster.head->checkpoints(id)).value();
  ASSERT_THAT(checkpoints, SizeIs(2));
  EXPECT_EQ(checkpoints[0].step, 8u);
  const auto dir = cluster.simulation.run(cluster.head->checkpoint_path(id, 10)).value().parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);
}

TEST(FullDisk, OfTwoDrainsUnderWayNoneIsLeft) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.store->hold(all);
  std::vector<std::optional<Error>> answers(2);
  for (auto& answer : answers) {
    net::co_spawn(cluster.simulation.executor(), cluster.head->drain("a"),
                  [&answer](const std::exception_ptr&, Result<NodeRecord> drained) { answer = drained.error(); });
  }
  cluster.simulation.settle();
  cluster.store->refuse(all);
  cluster.store->release();
  ASSERT_TRUE(cluster.simulation.run_until([&] { return answers[0] && answers[1]; }));
  EXPECT_EQ(cluster.node("a").state, NodeState::alive);
}

TEST(FullDisk, ACheckpointThatWasRefusedTakesNoOthersPlace) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.store->refuse(add_step_6);
  const auto id = submit_keeping_two(cluster);
  cluster.await_end(id);
  EXPECT_THAT(steps_kept(cluster, id), ElementsAre(4, 8));
}

TEST(FullDisk, TheCheckpointOfAStopIsWrittenOnceThereIsRoom) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 4; }));
  cluster.store->refuse(add_checkpoint);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(1min);
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(id).state, JobState::stopped);
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), SizeIs(1));
}

/// The messages of a job's events of that kind.
std::vector<std::string> messages(FakeCluster& cluster, const std::string& id, const std::string& kind) {
  std::vector<std::string> found;
  const auto page = cluster.simulation.run(cluster.head->events({.job_id = id, .limit = 1000}));
  for (const auto& event : page->events) {
    if (event.kind == kind) found.push_back(event.message);
  }
  return found;
}

TEST(FullDisk, AStopGivesUpACheckpointThatNeverFits) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 4; }));
  cluster.store->refuse(add_checkpoint);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(3min);
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
  EXPECT_THAT(messages(cluster, id, "checkpoint.lost"), ElementsAre(HasSubstr("the disk is full")));
  EXPECT_LT(std::ranges::count_if(cluster.store->commits(), add_checkpoint), 10) << "it was tried less and less often";
  EXPECT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
}

TEST(FullDisk, AJobThatOnlyWaitsForTheDiskCanBeStopped) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 10;
  cluster.store->refuse(add_checkpoint);
  const auto id = cluster.submit_job(2);
  cluster.simulation.pass(10min);
  EXPECT_EQ(cluster.job(id).state, JobState::running);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(1min);
  EXPECT_EQ(cluster.job(id).state, JobState::running) << "there may be room yet";
  cluster.simulation.pass(2min);
  EXPECT_EQ(cluster.job(id).state, JobState::succeeded);
  EXPECT_THAT(messages(cluster, id, "checkpoint.lost"), ElementsAre(HasSubstr("at step 10")));
}

TEST(FullDisk, AStopThatIsAcknowledgedWhileACheckpointWaitsOutlivesTheHead) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 10;
  cluster.store->refuse(add_checkpoint);
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  cluster.simulation.pass(1min);
  ASSERT_EQ(cluster.processes(), 0u) << "the workers have ended";
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.kill_head();
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
}

TEST(FullDisk, AStopThatCouldNotBeRecordedIsNotAcknowledgedAndMadeAllTheSame) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 4; }));
  cluster.store->refuse(all);
  for (int i = 0; i < 2; ++i) {
    const auto answer = cluster.simulation.run(cluster.head->stop_job(id));
    EXPECT_EQ(answer.error().code, Errc::exhausted);
    EXPECT_THAT(answer.error().context, HasSubstr("stops, which is not recorded yet"));
  }
  cluster.simulation.pass(6min);  // workers that repeat reports do not agree on a step
  EXPECT_EQ(cluster.processes(), 0u);
  EXPECT_EQ(cluster.simulation.run(cluster.head->stop_job(id)).error().code, Errc::exhausted) << "nor is its end";
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(id).state, JobState::stopped);
  EXPECT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
}

TEST(FullDisk, AHeadThatStopsDoesNotWaitForRoom) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 10;
  cluster.store->refuse(add_checkpoint);
  const auto id = cluster.submit_job(2);
  cluster.simulation.pass(10min);
  const auto before = cluster.simulation.clock().now();
  cluster.kill_head();
  EXPECT_LT(cluster.simulation.clock().now() - before, 10s);
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).state, JobState::failed) << "it ran";
}

TEST(FullDisk, AHeadThatStartsServesAndEndsWhatRanOnceThereIsRoom) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 1000;
  const auto ran = cluster.submit_job(2);
  const auto waited = cluster.submit_job(1);
  ASSERT_TRUE(cluster.await_job(ran, [](const JobRecord& job) { return job.step >= 3; }));
  cluster.kill_head();
  cluster.start_head(all);
  EXPECT_EQ(cluster.node("a").state, NodeState::lost);
  cluster.simulation.pass(10s);
  EXPECT_EQ(cluster.job(ran).state, JobState::running);
  EXPECT_EQ(cluster.simulation.run(cluster.head->stop_job(ran)).error().code, Errc::exhausted);
  EXPECT_EQ(cluster.simulation.run(cluster.head->submit(FakeCluster::spec(1), "")).error().code, Errc::exhausted);
  cluster.script.steps = 10;
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(waited).state, JobState::succeeded);
  EXPECT_EQ(cluster.await_end(ran).state, JobState::failed);
  EXPECT_EQ(cluster.job(ran).reason, "the head restarted while the job ran");
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(ran)).value()) {
    EXPECT_EQ(worker.state, WorkerState::exited);
  }
}

TEST(FullDisk, AHeadThatStartsLetsWhatRanWaitForAnotherAttempt) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 1000;
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  cluster.kill_head();
  cluster.remove_node("a");
  cluster.start_head(all);
  cluster.simulation.pass(10s);
  cluster.store->accept();
  cluster.simulation.pass(2s);
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering);
  EXPECT_THAT(messages(cluster, id, "job.restart"), SizeIs(1));
  cluster.script.steps = 10;
  cluster.add_node("a", 2);
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  EXPECT_EQ(cluster.job(id).restarts, 1u);
}

TEST(FullDisk, WorkersKeepWhatADiskThatIsSlowerThanTheyCannotTake) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 1;
  cluster.script.steps = 20;
  cluster.store->hold(add_checkpoint);
  const auto id = cluster.submit_job(2, {{"checkpoint", {{"keep", 100}}}});
  cluster.simulation.pass(1min);
  EXPECT_EQ(cluster.job(id).step, 3u) << "two are on their way to the disk, the third one is kept by the workers";
  cluster.store->release();
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), SizeIs(20)) << "none is lost";
}

TEST(FullDisk, AFailedAttemptDoesNotWaitForItsCheckpoint) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 2;
  cluster.script.steps = 20;
  cluster.store->refuse(add_checkpoint);
  const auto id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 6; }));
  cluster.spawners["a"]->kill(1);
  const auto second = cluster.submit_job(1);
  cluster.simulation.pass(5min);
  EXPECT_EQ(cluster.job(id).restarts, 1u);
  EXPECT_EQ(cluster.job(second).step, 20u) << "it has had its turn";
  EXPECT_EQ(cluster.job(id).state, JobState::running) << "what its second attempt has made is kept for the disk";
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  EXPECT_EQ(cluster.await_end(second).state, JobState::succeeded);
}

TEST(FullDisk, OfTwoCheckpointsWrittenAtATimeTheRefusedOneReplacesNone) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.store->hold(add_step_6);
  const auto id = submit_keeping_two(cluster);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 8; }));
  cluster.simulation.pass(1s);
  cluster.store->refuse(add_step_6);
  cluster.store->release();
  cluster.await_end(id);
  EXPECT_THAT(steps_kept(cluster, id), ElementsAre(4, 8));
}

TEST(FullDisk, OfTwoCheckpointsWrittenAtATimeBothReplaceOne) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.store->hold(add_step_6);
  const auto id = submit_keeping_two(cluster);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 8; }));
  cluster.simulation.pass(1s);
  cluster.store->release();
  cluster.await_end(id);
  EXPECT_THAT(steps_kept(cluster, id), ElementsAre(6, 8));
  const auto dir = cluster.simulation.run(cluster.head->checkpoint_path(id, 8)).value().parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);
}

TEST(FullDisk, AWaitingJobIsStoppedOrGoesOnWaiting) {
  FakeCluster cluster;
  const auto id = cluster.submit_job(1);
  cluster.store->refuse(all);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.simulation.run(cluster.head->stop_job(id)).error().code, Errc::exhausted);
  }
  cluster.store->accept();
  cluster.add_node("a", 1);
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
}

TEST(FullDisk, ANodeLinksItselfAnewAndTheJobGoesOn) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 300;
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  cluster.store->refuse(all);
  cluster.simulation.transport().cut();
  cluster.simulation.pass(20s);
  cluster.store->accept();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(cluster.spawners["a"]->children().size(), 2u);
}

TEST(FullDisk, AStoreThatRefusesIsAskedAgainAfterASecond) {
  FakeCluster cluster;
  const auto health = [&] { return cluster.simulation.run(cluster.head->health()).value(); };
  EXPECT_TRUE(health().store_writable);
  cluster.store->refuse(all);
  const auto before = cluster.store->commits().size();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(health().store_writable);
  EXPECT_THAT(health().detail, HasSubstr("the disk is full"));
  EXPECT_EQ(cluster.store->commits().size(), before + 1);
  cluster.store->accept();
  cluster.simulation.pass(1s);
  EXPECT_TRUE(health().store_writable);
}

}  // namespace
}  // namespace weir::cluster
