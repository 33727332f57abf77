// What workers print, from their processes to the logs of the head, when somebody changes the logs meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

/// A job whose workers have each printed one line, at the start.
struct Printing {
  explicit Printing(std::uint32_t workers = 2) {
    cluster.add_node("a", workers);
    cluster.script.step_time = 1h;  // nothing else happens
    id = cluster.submit_job(workers);
    EXPECT_EQ(cluster.await_phase(id, JobPhase::training).phase, JobPhase::training);
    cluster.simulation.pass(1s);
  }
  std::filesystem::path file(std::uint32_t rank) const {
    return cluster.dir.path() / "now" / "jobs" / id / ("worker-" + std::to_string(rank) + ".log");
  }
  static std::string first_line(std::uint32_t rank) { return "rank " + std::to_string(rank) + " is ready\n"; }
  void print(const std::string& text) {
    for (const auto& child : cluster.spawners["a"]->children()) child.print(text);
    cluster.simulation.pass(2s);
  }
  std::string log(std::uint32_t rank) { return cluster.simulation.run(cluster.head->logs(id, rank, 0, 1000))->text; }

  FakeCluster cluster;
  std::string id;
};

TEST(WorkerOutput, ALogThatSomebodyHasShortenedGoesOn) {
  Printing job;
  std::filesystem::remove(job.file(0));
  std::filesystem::resize_file(job.file(1), 4);
  job.print("one\n");
  job.print("two\n");
  EXPECT_EQ(job.log(0), "one\ntwo\n");
  EXPECT_EQ(job.log(1), "rankone\ntwo\n");
}

TEST(WorkerOutput, OfAnyNumberOfWorkersFitsAMessage) {
  Printing job(260);
  const std::string lines(70 << 10, 'x');  // 18 MB of all, and a message may have 16
  job.print(lines);
  job.cluster.simulation.pass(10s);
  for (const std::uint32_t rank : {0u, 259u}) {
    EXPECT_EQ(std::filesystem::file_size(job.file(rank)), lines.size() + job.first_line(rank).size());
  }
}

bool publishes_output(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& one) {
    const auto* item = std::get_if<change::Publish>(&one);
    return item != nullptr && item->kind == StreamKind::log;
  });
}

TEST(WorkerOutput, WhoseCommitFailedIsOnTheStreamLater) {
  Printing job;
  job.cluster.store->refuse(publishes_output);
  job.print("one\n");
  job.cluster.store->accept();
  job.print("two\n");
  job.cluster.simulation.pass(10s);
  std::string shown;
  const auto page = job.cluster.simulation.run(job.cluster.store->stream(0, 10'000, 1 << 20)).value();
  for (const auto& item : page.items) {
    if (item.kind != StreamKind::log) continue;
    const auto data = nlohmann::json::parse(item.data);
    if (data.at("worker") != 0) continue;
    EXPECT_EQ(data.at("offset").get<std::size_t>(), shown.size());
    shown += data.at("text").get<std::string>();
  }
  EXPECT_EQ(shown, job.first_line(0) + "one\ntwo\n");
}

TEST(WorkerOutput, OfManyWorkersIsCommittedTogether) {
  Printing job(40);
  const auto& commits = job.cluster.store->commits();
  const auto before = std::ranges::count_if(commits, publishes_output);
  job.print("one\n");
  EXPECT_LE(std::ranges::count_if(commits, publishes_output) - before, 4) << "the node sends it in a message or a few";
  for (const std::uint32_t rank : {0u, 39u}) EXPECT_EQ(job.log(rank), job.first_line(rank) + "one\n");
}

TEST(WorkerOutput, ALogThatCannotBeWrittenHoldsUpNoOtherWorker) {
  Printing job;
  std::filesystem::remove(job.file(0));
  std::filesystem::create_directory(job.file(0));
  job.print("one\n");
  EXPECT_EQ(job.log(1), "rank 1 is ready\none\n");
  std::filesystem::remove(job.file(0));
  job.print("two\n");
  EXPECT_EQ(job.log(0), "two\n") << "what came meanwhile is lost, what comes now is not";
  EXPECT_EQ(job.log(1), "rank 1 is ready\none\ntwo\n");
}

TEST(WorkerOutput, ADiskThatIsHeldUpCostsNoNodeItsLease) {
  constexpr std::uint32_t nodes = 20;
  FakeCluster cluster;
  cluster.script.step_time = 24h;
  for (std::uint32_t i = 0; i < nodes; ++i) cluster.add_node("n" + std::to_string(i), 1);
  const auto id = cluster.submit_job(nodes);
  ASSERT_EQ(cluster.await_phase(id, JobPhase::training).phase, JobPhase::training);
  cluster.simulation.pass(2s);
  cluster.store_process->stop();
  const auto print = [&cluster](const std::string& text) {
    for (const auto& [name, spawner] : cluster.spawners) spawner->children().front().print(text);
  };
  print("one\n");
  cluster.simulation.pass(1min);
  print("two\n");
  cluster.simulation.pass(3min);
  // Nothing piles up in the mailbox through which heartbeats come: with more nodes, it would be full.
  const auto page = cluster.simulation.run(cluster.head->actors("head/membership", 1, "")).value();
  EXPECT_LE(page.actors.at(0).mailbox_depth.value(), 2 * nodes);
  cluster.store_process->resume();
  cluster.simulation.pass(10s);
  for (const auto& node : cluster.simulation.run(cluster.head->nodes()).value()) {
    EXPECT_EQ(node.state, NodeState::alive) << node.name << ": " << node.reason;
  }
  EXPECT_EQ(cluster.processes(), nodes);
  for (const std::uint32_t rank : {0u, nodes - 1}) {
    const auto log = cluster.simulation.run(cluster.head->logs(id, rank, 0, 1000)).value();
    EXPECT_EQ(log.text, "rank " + std::to_string(rank) + " is ready\none\ntwo\n");
  }
}

TEST(WorkerOutput, DoesNotWaitBehindALargeCheckpoint) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  cluster.script.steps = 100'000;
  cluster.script.checkpoint_every = 5;
  const auto id = cluster.submit_job(1);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 2; }));
  cluster.files_process->stop();  // the checkpoint is being written
  cluster.simulation.pass(2s);
  cluster.spawners["a"]->children().front().print("one\n");
  cluster.simulation.pass(2s);
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::IsEmpty());
  EXPECT_EQ(cluster.simulation.run(cluster.head->logs(id, 0, 0, 1000))->text, "rank 0 is ready\none\n");
  EXPECT_EQ(cluster.simulation.run(cluster.head->log_sizes(id))->at(0).size, 20u);
  cluster.files_process->resume();
  cluster.simulation.pass(2s);
  EXPECT_THAT(cluster.simulation.run(cluster.head->checkpoints(id)).value(), testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace weir::cluster
