#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/records.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::GpuShare;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Two nodes: a with two GPUs, b without.
class GpuJobs : public testing::Test {
 protected:
  GpuJobs() { add_gpu_node("a"); }

  void add_gpu_node(const std::string& name) {
    const std::string prefix = "GPU-" + name;
    cluster_.gpus[name] = std::make_shared<FakeGpuProbe>(
        std::vector<protocol::Gpu>{{0, prefix + "0", "NVIDIA H200", 1000}, {1, prefix + "1", "NVIDIA H200", 1000}});
    cluster_.add_node(name, 8);
    EXPECT_TRUE(cluster_.await_node(name, NodeState::alive));
  }

  std::string submit(std::uint32_t workers, double gpu, json more = json::object()) {
    more["resources"]["per_worker"] = {{"cpu", 1}, {"gpu", gpu}};
    return cluster_.submit_job(workers, more);
  }
  std::vector<WorkerRecord> workers(const std::string& id) {
    return cluster_.simulation.run(cluster_.head->workers(id)).value();
  }
  json node_json(const std::string& name) { return to_json(cluster_.node(name)); }
  /// The variable in the environment of a job's process.
  std::string visible(const std::string& id, std::size_t rank) {
    const auto worker = workers(id).at(rank);
    for (const auto& child : cluster_.spawners[worker.node]->children()) {
      const auto& environment = child.spec().environment;
      if (environment.at("WEIR_WORKER_ID") != worker.id) continue;
      const auto found = environment.find("CUDA_VISIBLE_DEVICES");
      return found == environment.end() ? "(unset)" : found->second;
    }
    return "(not started)";
  }
  std::vector<std::string> messages(const std::string& kind) {
    std::vector<std::string> found;
    EventQuery query;
    query.limit = 1000;
    const auto page = cluster_.simulation.run(cluster_.head->events(query)).value();
    for (const auto& event : page.events) {
      if (event.kind == kind) found.push_back(event.message);
    }
    return found;
  }

  bool has_failed_ = false;
  bool fails_now_ = false;
  FakeCluster cluster_;
};

TEST_F(GpuJobs, FractionsPackOneGpuAndEachWorkerSeesItsOwn) {
  cluster_.script.steps = 100'000;
  const auto id = submit(3, 0.5);
  cluster_.await_phase(id, JobPhase::training);
  const auto found = workers(id);
  EXPECT_THAT(found[0].gpus, ElementsAre(GpuShare{"GPU-a0", 0.5}));
  EXPECT_THAT(found[1].gpus, ElementsAre(GpuShare{"GPU-a0", 0.5}));
  EXPECT_THAT(found[2].gpus, ElementsAre(GpuShare{"GPU-a1", 0.5}));
  EXPECT_EQ(visible(id, 0), "GPU-a0");
  EXPECT_EQ(visible(id, 1), "GPU-a0");
  EXPECT_EQ(visible(id, 2), "GPU-a1");
  const auto waits = submit(1, 1);
  EXPECT_THAT(cluster_.job(waits).reason,
              HasSubstr("node a lacks gpu (GPU 0 has 0 free, GPU 1 has 0.5 free; a worker needs a whole one)"));
  const auto node = node_json("a");
  EXPECT_EQ(node["gpus"][0]["booked"], 1.0);
  EXPECT_EQ(node["gpus"][1]["booked"], 0.5);
  EXPECT_EQ(node["gpus"][1]["workers"][0]["job"], id);
  EXPECT_EQ(node["gpus"][1]["workers"][0]["share"], 0.5);
  EXPECT_EQ(node["labels"]["gpu_type"], "nvidia-h200");
  cluster_.simulation.run(cluster_.head->stop_job(id));
  cluster_.await_phase(waits, JobPhase::training);
  EXPECT_EQ(visible(waits, 0), "GPU-a0") << "freed";
}

TEST_F(GpuJobs, WholeGpusAreListedInOrder) {
  const auto id = submit(1, 2);
  EXPECT_EQ(cluster_.await_end(id).state, JobState::succeeded);
  EXPECT_EQ(visible(id, 0), "GPU-a0,GPU-a1");
  EXPECT_THAT(workers(id)[0].gpus, ElementsAre(GpuShare{"GPU-a0", 1}, GpuShare{"GPU-a1", 1}));
  EXPECT_EQ(node_json("a")["gpus"][0]["booked"], 0.0) << "free again";
}

TEST_F(GpuJobs, AWorkerWithoutGpusSeesNoneWhereThereAreSome) {
  cluster_.add_node("b", 8);
  ASSERT_TRUE(cluster_.await_node("b", NodeState::alive));
  const auto id = cluster_.submit_job(2, {{"resources", {{"placement", "spread"}}}});
  EXPECT_EQ(cluster_.await_end(id).state, JobState::succeeded);
  EXPECT_EQ(workers(id)[0].node, "a");
  EXPECT_EQ(visible(id, 0), "");
  EXPECT_EQ(visible(id, 1), "") << "nor where the node has no driver: CUDA may find some all the same";
}

TEST_F(GpuJobs, AGangGetsGpusOnSeveralNodes) {
  add_gpu_node("b");
  const auto id = submit(4, 1);
  EXPECT_EQ(cluster_.await_end(id).state, JobState::succeeded);
  EXPECT_THAT((std::vector{visible(id, 0), visible(id, 1), visible(id, 2), visible(id, 3)}),
              ElementsAre("GPU-a0", "GPU-a1", "GPU-b0", "GPU-b1"));
}

TEST_F(GpuJobs, AServerGetsAGpuOnlyIfAskedFor) {
  const json served = {{"training", {{"mode", "served"}, {"params", {{"servers", 1}}}}}};
  const auto id = submit(1, 1, served);
  cluster_.await_end(id);
  const auto found = workers(id);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].gpus, ElementsAre(GpuShare{"GPU-a0", 1}));
  EXPECT_THAT(found[1].gpus, IsEmpty());
  EXPECT_EQ(visible(id, 1), "");
}

TEST_F(GpuJobs, TheBookingSurvivesARestartOfTheHead) {
  cluster_.script.steps = 100'000;
  const auto id = submit(1, 0.5);
  cluster_.await_phase(id, JobPhase::training);
  cluster_.kill_head();
  cluster_.start_head();
  EXPECT_THAT(workers(id)[0].gpus, ElementsAre(GpuShare{"GPU-a0", 0.5})) << "in the process's record";
  ASSERT_TRUE(cluster_.await_node("a", NodeState::alive));
  EXPECT_EQ(cluster_.job(id).state, JobState::failed);
  EXPECT_EQ(node_json("a")["gpus"][0]["booked"], 0.0) << "its process has ended with the head's lease";
  cluster_.script.steps = 3;
  EXPECT_EQ(cluster_.await_end(submit(2, 1)).state, JobState::succeeded) << "and both GPUs are free";
}

TEST_F(GpuJobs, AVanishedGpuIsBookedNoMore) {
  cluster_.gpus["a"]->vanished = {"GPU-a0"};
  cluster_.simulation.pass(3s);
  auto node = node_json("a");
  EXPECT_EQ(node["gpus"][0]["state"], "lost");
  EXPECT_TRUE(node["gpus"][0]["utilization"].is_null());
  EXPECT_EQ(node["gpus"][1]["utilization"], 0.5);
  EXPECT_EQ(node["resources"]["gpu"], 1.0);
  EXPECT_THAT(messages("node.gpu_lost"),
              ElementsAre("GPU 0 (NVIDIA H200, GPU-a0) of node a is not there any more; nothing is placed on it"));
  const auto one = submit(1, 1);
  EXPECT_EQ(cluster_.await_end(one).state, JobState::succeeded);
  EXPECT_EQ(visible(one, 0), "GPU-a1");
  const auto waits = submit(2, 1);
  cluster_.simulation.pass(1s);
  EXPECT_THAT(cluster_.job(waits).reason, HasSubstr("node a has room for 1"));
  EXPECT_THAT(cluster_.job(submit(1, 2)).reason, HasSubstr("node a lacks gpu (1, a worker needs 2; GPU 0 is lost)"));
  cluster_.gpus["a"]->vanished.clear();
  EXPECT_EQ(cluster_.await_end(waits).state, JobState::succeeded) << "once it is there again";
  EXPECT_THAT(messages("node.gpu_back"), ElementsAre(HasSubstr("GPU 0 (NVIDIA H200, GPU-a0) of node a")));
}

TEST_F(GpuJobs, AnOrderForAGpuThatHasJustVanishedFailsAndTheJobGoesOnElsewhere) {
  cluster_.simulation.pass(100ms);  // between two readings
  cluster_.gpus["a"]->vanished = {"GPU-a0"};
  const auto once = submit(1, 1);
  const auto failed = cluster_.await_end(once);
  EXPECT_EQ(failed.state, JobState::failed);
  EXPECT_THAT(failed.reason, AllOf(HasSubstr("worker 0 could not be started on node a"),
                                   HasSubstr("GPU 0 (NVIDIA H200, GPU-a0) of node a is not there any more")));
  cluster_.gpus["a"]->vanished.clear();
  cluster_.simulation.pass(3s);
  cluster_.gpus["a"]->vanished = {"GPU-a0"};
  const auto again = cluster_.await_end(submit(1, 1, {{"fault_tolerance", {{"max_restarts", 1}}}}));
  EXPECT_EQ(again.state, JobState::succeeded);
  EXPECT_EQ(again.restarts, 1u);
  EXPECT_EQ(visible(again.id, 0), "GPU-a1");
}

TEST_F(GpuJobs, GpusThatCannotBeReadAreNotTriedAgainAndAgain) {
  cluster_.gpus["a"]->failure = Error{{}, "the driver does not answer"};
  const auto id = submit(1, 1, {{"fault_tolerance", {{"max_restarts", 1}}}});
  cluster_.simulation.pass(1min);
  EXPECT_EQ(cluster_.job(id).phase, JobPhase::recovering) << cluster_.job(id).reason;
  EXPECT_EQ(node_json("a")["gpus"][1]["state"], "lost");
  cluster_.gpus["a"]->failure.reset();
  const auto ended = cluster_.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
}

TEST_F(GpuJobs, AWorkerWhoseGpuIsLostWhileItComputesIsNoFaultOfTheJob) {
  cluster_.script.fails = [this](std::uint32_t) -> std::optional<protocol::TrainingEnd> {
    if (std::exchange(has_failed_, true)) return std::nullopt;
    cluster_.gpus["a"]->vanished = {"GPU-a0"};
    protocol::TrainingEnd end;
    end.cause = "CUDA error: unspecified launch failure";
    return end;
  };
  const auto id = submit(1, 1, {{"fault_tolerance", {{"max_restarts", 1}}}});
  const auto ended = cluster_.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  EXPECT_EQ(visible(id, 0), "GPU-a1");
}

TEST_F(GpuJobs, AGpuThatIsThereAgainExcusesNothing) {
  cluster_.script.steps = 100'000;
  cluster_.script.fails = [this](std::uint32_t) -> std::optional<protocol::TrainingEnd> {
    if (!fails_now_) return std::nullopt;
    protocol::TrainingEnd end;
    end.cause = "the loss is not a number";
    return end;
  };
  const auto id = submit(1, 1, {{"fault_tolerance", {{"max_restarts", 1}}}});
  ASSERT_TRUE(cluster_.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
  cluster_.gpus["a"]->vanished = {"GPU-a0"};
  cluster_.simulation.pass(3s);
  cluster_.gpus["a"]->vanished.clear();
  cluster_.simulation.pass(3s);
  ASSERT_THAT(messages("node.gpu_back"), testing::SizeIs(1));
  fails_now_ = true;
  const auto ended = cluster_.await_end(id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_EQ(ended.restarts, 0u);
}

TEST_F(GpuJobs, SamplesThatStopBecomeUnknown) {
  cluster_.simulation.pass(2s);
  EXPECT_EQ(node_json("a")["gpus"][0]["utilization"], 0.5);
  cluster_.gpus["a"]->failure = Error{{}, "the driver does not answer"};
  cluster_.simulation.pass(8s);
  EXPECT_TRUE(node_json("a")["gpus"][0]["utilization"].is_null());
  EXPECT_EQ(node_json("a")["gpus"][0]["state"], "present") << "that it is gone was not said";
  cluster_.gpus["a"]->failure.reset();
  cluster_.simulation.pass(3s);
  EXPECT_EQ(node_json("a")["gpus"][0]["utilization"], 0.5);
  cluster_.node_processes["a"]->stop();
  cluster_.simulation.pass(4s);
  EXPECT_TRUE(node_json("a")["gpus"][0]["utilization"].is_null()) << "the node is silent";
  cluster_.node_processes["a"]->resume();
}

}  // namespace
}  // namespace weir::cluster
