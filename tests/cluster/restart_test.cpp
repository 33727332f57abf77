// Attempts that follow another one: from where they go on, and that they get their room back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cluster/store/sqlite.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const json one_restart = {{"fault_tolerance", {{"max_restarts", 1}}}};

json resumed(const std::string& job) {
  json spec = one_restart;
  spec["checkpoint"] = {{"resume_from", {{"job", job}}}};
  return spec;
}

bool has_begun(const JobRecord& job) { return job.step >= 3; }

TEST(Restart, OfAResumedJobGoesOnFromTheCheckpointThatItBeganWith) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.script.steps = 20;
  const auto id = cluster.submit_job(1, resumed(first));
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.spawners["a"]->kill(1);
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  const auto& resumed = cluster.script.resumed;
  ASSERT_EQ(resumed.size(), 3u);
  EXPECT_FALSE(resumed[1].part.empty());
  EXPECT_TRUE(std::ranges::equal(resumed[2].part.bytes(), resumed[1].part.bytes()));
}

/// Only a worker that has read its data knows how many steps some jobs have.
TEST(Restart, AResumedJobWithoutStepsLeftFailsWithASentence) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.script.steps = 20;
  cluster.script.step_resumed = 20;
  const auto ended = cluster.await_end(cluster.submit_job(1, resumed(first)));
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_EQ(
      ended.reason,
      "the checkpoint to go on from is of step 20, and this job ends after 20: ask for more epochs, or more steps, "
      "or an earlier checkpoint");
}

TEST(Restart, OfAResumedJobNeedsNoFileOfTheOtherJob) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  const auto busy = cluster.submit_job(1);
  const auto id = cluster.submit_job(1, resumed(first));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->remove_job(first)));
  cluster.kill_head();
  cluster.script.steps = 20;
  cluster.start_head();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_FALSE(cluster.script.resumed.back().part.empty());
  const auto dir = cluster.dir.path() / "now" / "jobs" / id;
  EXPECT_FALSE(std::filesystem::exists(dir / "resume.safetensors")) << "nobody needs it any more";
  EXPECT_EQ(cluster.job(busy).state, JobState::failed) << "it ran";
}

/// A job of two workers on node "a" that has a checkpoint of step 10.
std::string job_at_step_12(FakeCluster& cluster) {
  cluster.add_node("a", 2);
  cluster.script.steps = 20;
  cluster.script.checkpoint_every = 5;
  const auto id = cluster.submit_job(2, one_restart);
  EXPECT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  return id;
}

TEST(Restart, ThatWaitsForRoomOutlivesTheHead) {
  FakeCluster cluster;
  const auto id = job_at_step_12(cluster);
  cluster.remove_node("a");
  cluster.await_phase(id, JobPhase::recovering);
  cluster.simulation.pass(10s);
  cluster.kill_head();
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering);
  cluster.add_node("a", 2);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  EXPECT_FALSE(cluster.script.resumed.back().part.empty());
  EXPECT_GE(ended.summary["bytes_sent"], 2 * (1200 + 2000)) << "its counts go on";
  for (const auto axis : {MetricAxis::wall, MetricAxis::bytes}) {
    MetricQuery query{.job_id = id, .names = {"loss"}, .x = axis, .from = {}, .to = {}, .worker = {}};
    for (const auto& series : cluster.simulation.run(cluster.head->metrics(query)).value()) {
      for (std::size_t i = 1; i < series.points.size(); ++i) EXPECT_GT(series.points[i].x, series.points[i - 1].x);
    }
  }
}

std::vector<std::string> restarts_of(FakeCluster& cluster, const std::string& id) {
  std::vector<std::string> found;
  const auto page = cluster.simulation.run(cluster.head->events({.job_id = id, .limit = 1000})).value();
  for (const auto& event : page.events) {
    if (event.kind == "job.restart") found.push_back(event.message);
  }
  return found;
}

TEST(Restart, OfTheHeadIsOneOfEveryJobThatRan) {
  FakeCluster cluster;
  const auto id = job_at_step_12(cluster);
  cluster.kill_head();
  cluster.start_head();
  const auto waits = cluster.job(id);
  EXPECT_EQ(waits.phase, JobPhase::recovering);
  EXPECT_EQ(waits.restarts, 1u);
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(id)).value()) {
    EXPECT_EQ(worker.state, WorkerState::exited);
  }
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_FALSE(cluster.script.resumed.back().part.empty());
  EXPECT_GE(ended.summary["bytes_sent"], 2 * (1000 + 2000)) << "its counts go on";
  EXPECT_THAT(
      restarts_of(cluster, id),
      testing::ElementsAre("restart 1 of 1 from the checkpoint at step 10: the head restarted while the job ran"));
}

TEST(Restart, OfTheHeadIsNoneOfAJobWhoseWorkersHadFinished) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 10;
  const auto id = cluster.submit_job(1, one_restart);
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.node_processes["a"]->stop();  // it cannot end its worker
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 10; }));
  cluster.simulation.pass(1s);
  ASSERT_EQ(cluster.job(id).state, JobState::running) << "its process is waited for";
  cluster.stop_head();
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).state, JobState::succeeded);
  for (const auto& worker : cluster.simulation.run(cluster.head->workers(id)).value()) {
    EXPECT_EQ(worker.state, WorkerState::exited);
  }
}

TEST(Restart, OfTheHeadIsOneOfAJobWhoseLastCheckpointIsMissing) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.checkpoint_every = 10;
  cluster.store->refuse(add_checkpoint);
  const auto id = cluster.submit_job(1, one_restart);
  cluster.simulation.pass(1min);
  ASSERT_EQ(cluster.processes(), 0u) << "its worker has finished";
  cluster.stop_head();
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering);
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::SizeIs(1));
}

TEST(Restart, OfTheHeadCompletesASpecThatAnEarlierVersionHasStored) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 1000;
  const auto id = cluster.submit_job(1, {{"fault_tolerance", {{"max_restarts", 3}}}});  // the default
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.kill_head();
  Database(cluster.dir.path() / "now" / "weir.db", false)
      .execute("UPDATE jobs SET spec = json_remove(spec, '$.compression.aggregation', '$.fault_tolerance')");
  cluster.script.steps = 20;
  cluster.start_head();
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
  ASSERT_EQ(cluster.script.assignments.size(), 2u);
  EXPECT_EQ(json::parse(cluster.script.assignments[1].spec), json::parse(cluster.script.assignments[0].spec));
}

TEST(Restart, OfTheHeadIsTheLastOneOfAJobThatMayHaveNoMore) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(1, one_restart);
  cluster.await_phase(id, JobPhase::training);
  for (const auto expected : {JobPhase::recovering, JobPhase::none}) {
    cluster.kill_head();
    cluster.start_head();
    EXPECT_EQ(cluster.job(id).phase, expected);
    ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.phase != JobPhase::recovering; }));
    cluster.simulation.pass(5s);
  }
  EXPECT_EQ(cluster.job(id).state, JobState::failed);
  EXPECT_EQ(cluster.processes(), 0u);
}

/// The one that took its place has another secret, so that what the first one says is not heard.
TEST(Restart, OfTheHeadLetsNoWorkerOfTheFirstAttemptIntoTheSecond) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 1000;
  const auto id = cluster.submit_job(1, one_restart);
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.node_processes["a"]->stop();  // it cannot end its worker
  cluster.kill_head();
  cluster.start_head();
  cluster.script.steps = 10;
  cluster.add_node("b", 1);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.step, 10u);
  cluster.node_processes["a"]->resume();
  cluster.simulation.pass(20s);
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(Restart, ThatCouldNotBeRecordedOutlivesTheHead) {
  FakeCluster cluster;
  const auto id = job_at_step_12(cluster);
  cluster.store->refuse([](const std::vector<Change>&) { return true; });
  cluster.remove_node("a");
  cluster.simulation.pass(20s);
  cluster.store->accept();
  cluster.simulation.pass(2s);
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering);
  cluster.kill_head();
  cluster.start_head();
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering) << cluster.job(id).reason;
  cluster.add_node("a", 2);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  EXPECT_THAT(restarts_of(cluster, id), testing::SizeIs(1));
}

TEST(Restart, ThatCouldNotBeRecordedIsStoppedLikeAnyOther) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(2, one_restart);
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.store->refuse([](const std::vector<Change>&) { return true; });
  cluster.remove_node("a");
  cluster.simulation.pass(20s);
  EXPECT_FALSE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.store->accept();
  cluster.simulation.pass(2s);
  EXPECT_EQ(cluster.job(id).phase, JobPhase::recovering);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(id)));
  cluster.simulation.pass(5s);
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
}

/// Whether they say of some job what `what` asks for.
bool put_job(const std::vector<Change>& changes, bool (*what)(const JobRecord&)) {
  return std::ranges::any_of(changes, [what](const Change& one) {
    const auto* put = std::get_if<change::PutJob>(&one);
    return put != nullptr && what(put->job);
  });
}
bool recovers(const JobRecord& job) { return job.phase == JobPhase::recovering; }
bool has_ended(const JobRecord& job) { return terminal(job.state); }

TEST(Restart, ThatIsStoppedWhileItIsRecordedIsNotMadeByTheNextHead) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 1000;
  const auto id = cluster.submit_job(2, one_restart);
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  bool is_recorded = false;
  cluster.store->hold([&](const std::vector<Change>& changes) {
    if (!put_job(changes, recovers)) return false;
    is_recorded = true;
    cluster.store_process->stop();  // the disk is slow
    return false;
  });
  cluster.store->refuse([](const std::vector<Change>& changes) { return put_job(changes, has_ended); });
  cluster.spawners["a"]->kill(0);
  ASSERT_TRUE(cluster.simulation.run_until([&] { return is_recorded; }));
  std::optional<Result<JobRecord>> answer;
  net::co_spawn(cluster.simulation.executor(), cluster.head->stop_job(id),
                [&answer](const std::exception_ptr&, Result<JobRecord> job) { answer = std::move(job); });
  cluster.simulation.settle();
  EXPECT_FALSE(answer.has_value()) << "the head must not forget what it has answered";
  cluster.store_process->resume();
  ASSERT_TRUE(cluster.simulation.run_until([&] { return answer.has_value(); }));
  ASSERT_TRUE(*answer) << answer->error().message();
  EXPECT_EQ((*answer)->phase, JobPhase::stopping);
  cluster.kill_head();
  cluster.start_head();
  cluster.simulation.pass(10s);
  EXPECT_EQ(cluster.job(id).state, JobState::stopped);
  EXPECT_EQ(cluster.job(id).reason, "stopped on request; the head restarted before the job had ended");
}

TEST(Restart, OfTheHeadLeavesAResumedJobWhoseEndIsNotRecordedWhatItGoesOnFrom) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.script.steps = 20;
  cluster.store->refuse([](const std::vector<Change>& changes) { return put_job(changes, has_ended); });
  const auto id = cluster.submit_job(1, resumed(first));
  cluster.simulation.pass(20s);
  ASSERT_EQ(cluster.processes(), 0u) << "it is over";
  cluster.stop_head();
  cluster.start_head();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  EXPECT_FALSE(cluster.script.resumed.back().part.empty());
}

TEST(Restart, GetsItsRoomBackBeforeThoseThatCameLater) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 20;
  const auto first = cluster.submit_job(2, one_restart);
  ASSERT_TRUE(cluster.await_job(first, has_begun));
  const auto second = cluster.submit_job(1);
  cluster.spawners["a"]->kill(0);
  const auto ended = cluster.await_end(first);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_GE(cluster.await_end(second).started_at, ended.ended_at);
}

/// The head is killed and started so many times before one of two nodes can join again.
void waits_for_all_nodes(int starts) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  cluster.add_node("b", 4);
  cluster.script.steps = 1000;
  const auto ran = cluster.submit_job(8, one_restart);
  ASSERT_TRUE(cluster.await_job(ran, has_begun));
  const auto waited = cluster.submit_job(4);
  cluster.script.steps = 20;
  cluster.node_processes["b"]->stop();
  for (int start = 0; start < starts; ++start) {
    cluster.kill_head();
    cluster.start_head();
    ASSERT_EQ(cluster.node("b").state, NodeState::lost);
  }
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(5s);
  for (const auto& id : {ran, waited}) {
    EXPECT_EQ(cluster.job(id).reason, "waits for nodes to join again after the head's restart");
  }
  cluster.node_processes["b"]->resume();
  const auto ended = cluster.await_end(ran);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_GE(cluster.await_end(waited).started_at, ended.ended_at);
}

TEST(Restart, OfTheHeadWaitsForAllNodesOfALargeJob) { waits_for_all_nodes(1); }

TEST(Restart, OfTheHeadBeforeAllNodesAreBackWaitsForThemAgain) { waits_for_all_nodes(2); }

TEST(Restart, OfTheHeadDoesNotWaitLongForANodeThatStaysAway) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.add_node("b", 1);
  cluster.script.steps = 1000;
  const auto ran = cluster.submit_job(2, one_restart);
  ASSERT_TRUE(cluster.await_job(ran, has_begun));
  const auto waited = cluster.submit_job(1);
  cluster.script.steps = 20;
  cluster.kill_head();
  cluster.remove_node("b");
  cluster.start_head();
  const auto is_over = [](const JobRecord& job) { return terminal(job.state); };
  EXPECT_FALSE(cluster.await_job(waited, is_over, 10s));
  EXPECT_TRUE(cluster.await_job(waited, is_over, 20s));
  EXPECT_THAT(cluster.job(ran).reason, testing::HasSubstr("the cluster has no room for 2 workers"));
}

TEST(Restart, OfTheHeadDelaysNobodyWhereNothingRan) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.add_node("b", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive) && cluster.await_node("b", NodeState::alive));
  cluster.kill_head();
  cluster.remove_node("b");
  cluster.start_head();
  const auto id = cluster.submit_job(1);
  EXPECT_TRUE(cluster.await_job(
      id, [](const JobRecord& job) { return terminal(job.state); }, 10s));
}

TEST(Restart, OfTheHeadEndsARemovalThatWasHalfDone) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto id = cluster.submit_job(1);
  cluster.await_end(id);
  const auto jobs = cluster.dir.path() / "now" / "jobs";
  std::filesystem::rename(jobs / id, jobs / (id + ".removed"));  // before it was committed
  std::filesystem::create_directories(jobs / "1.removed" / "checkpoints");
  std::filesystem::create_directories(jobs / "2");
  cluster.kill_head();
  cluster.start_head();
  EXPECT_TRUE(std::filesystem::exists(jobs / id / "worker-0.log"));
  EXPECT_FALSE(std::filesystem::exists(jobs / "1.removed"));
  EXPECT_TRUE(std::filesystem::exists(jobs / "2")) << "nobody wanted it removed: the store may be an older copy";
  EXPECT_TRUE(cluster.simulation.run(cluster.head->remove_job(id)));
  EXPECT_FALSE(std::filesystem::exists(jobs / id));
  EXPECT_FALSE(std::filesystem::exists(jobs / (id + ".removed")));
}

TEST(Restart, OfTheHeadRemovesTheFilesThatNobodyNeeds) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.script.checkpoint_every = 5;
  const auto id = cluster.submit_job(1, {{"checkpoint", {{"resume_from", {{"job", first}}}}}});
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 12; }));
  const auto jobs = cluster.dir.path() / "now" / "jobs";
  const auto checkpoints = jobs / id / "checkpoints";
  const auto plant = [&](const std::filesystem::path& file) {
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(checkpoints / "step-5.safetensors", file);
  };
  plant(checkpoints / "step-8.safetensors");       // it was replaced, and its row removed
  plant(checkpoints / "step-15.safetensors.new");  // it was being written
  plant(jobs / "1" / "resume.safetensors");        // of a job that was being submitted
  plant(jobs / "2" / "checkpoints" / "step-5.safetensors");
  cluster.kill_head();
  cluster.start_head();
  cluster.simulation.pass(1s);
  EXPECT_EQ(cluster.job(id).state, JobState::failed) << "it ran";
  EXPECT_FALSE(std::filesystem::exists(jobs / id / "resume.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "step-5.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "step-10.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(checkpoints / "step-8.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(checkpoints / "step-15.safetensors.new"));
  EXPECT_FALSE(std::filesystem::exists(jobs / "1"));
  EXPECT_TRUE(std::filesystem::exists(jobs / "2")) << "the store may be an older copy";
}

TEST(Restart, AResumedJobThatHasEndedIsRemovedWhateverTheDiskDoes) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  const auto first = cluster.stopped_job(1);
  cluster.script.steps = 10;
  const auto id = cluster.submit_job(1, resumed(first));
  ASSERT_TRUE(cluster.await_job(id, has_begun));
  cluster.files_process->stop();
  ASSERT_EQ(cluster.await_end(id).state, JobState::succeeded);
  const auto stopped = cluster.simulation.run(cluster.head->stop_job(id));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->state, JobState::succeeded);
  std::optional<Result<void>> removed;
  net::co_spawn(cluster.simulation.executor(), cluster.head->remove_job(id),
                [&removed](const std::exception_ptr&, Result<void> answer) { removed = std::move(answer); });
  cluster.simulation.settle();
  cluster.files_process->resume();
  ASSERT_TRUE(cluster.simulation.run_until([&] { return removed.has_value(); }));
  EXPECT_TRUE(*removed) << removed->error().message();
  EXPECT_FALSE(std::filesystem::exists(cluster.dir.path() / "now" / "jobs" / id));
}

}  // namespace
}  // namespace weir::cluster
