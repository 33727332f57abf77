// Jobs whose training mode needs parameter servers or a state server beside the workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/errc.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

json served(std::uint32_t servers, const json& more = json::object()) {
  json spec = {{"training", {{"mode", "served"}, {"params", {{"servers", servers}}}}}};
  spec.merge_patch(more);
  return spec;
}

json watched() { return {{"training", {{"mode", "watched"}}}}; }

TEST(JobRoles, EveryRankIsToldItsRoleAndTheSizeOfTheGroup) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  const auto id = cluster.submit_job(2, watched());
  const auto ended = cluster.await_end(id);
  ASSERT_EQ(ended.state, JobState::succeeded) << ended.reason;
  auto assignments = cluster.script.assignments;
  ASSERT_THAT(assignments, SizeIs(4));
  std::ranges::sort(assignments, {}, &protocol::Assignment::rank);
  const std::vector<Role> expected{Role::worker, Role::worker, Role::server, Role::state_server};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(assignments[rank].rank, rank);
    EXPECT_EQ(assignments[rank].role, expected[rank]);
    EXPECT_EQ(assignments[rank].world, 2u);
    EXPECT_EQ(assignments[rank].members, 4u);
  }
  const auto workers = cluster.simulation.run(cluster.head->workers(id)).value();
  ASSERT_THAT(workers, SizeIs(4));
  for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(workers[rank].role, expected[rank]);
  EXPECT_EQ(to_json(workers[3])["role"], "state_server");
  EXPECT_EQ(cluster.processes(), 0u);
  const auto used = cluster.node("a").used;
  EXPECT_EQ(used.contains("cpu") ? used.at("cpu") : 0, 0);
}

TEST(JobRoles, NodesAndActorsShowThem) {
  FakeCluster cluster;
  cluster.add_node("a", 3);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2, watched());
  cluster.await_phase(id, JobPhase::training);
  const auto node = cluster.node("a");
  EXPECT_EQ(node.used.at("cpu"), 3) << "nothing is set aside for the state server";
  std::vector<std::string> roles;
  const auto shown = to_json(node);
  for (const auto& worker : shown["workers"]) roles.push_back(worker["role"]);
  EXPECT_THAT(roles, testing::UnorderedElementsAre("worker", "worker", "server", "state_server"));
  const auto servers = cluster.simulation.run(cluster.head->actors("parameter_server", 10, "")).value();
  EXPECT_THAT(servers.actors, SizeIs(1));
}

TEST(JobRoles, TheJobsFiguresAreThoseOfItsWorkers) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  const auto id = cluster.submit_job(2, served(2));
  const auto ended = cluster.await_end(id);
  ASSERT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.step, 10u);
  EXPECT_EQ(ended.summary["bytes_sent"], 2 * 1000) << "servers are not summed";
  MetricQuery query;
  query.job_id = id;
  query.names = {"loss"};
  const auto series = cluster.simulation.run(cluster.head->metrics(query)).value();
  ASSERT_THAT(series, SizeIs(1 + 4)) << "each rank has its own";
  EXPECT_FALSE(series[0].worker);
  EXPECT_DOUBLE_EQ(series[0].points[0].last, (1.0 + 0.5) / 2);
}

TEST(JobRoles, WhatAServerPrintsIsKeptAsThatOfAWorker) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  const auto id = cluster.submit_job(2, served(1));
  cluster.await_end(id);
  EXPECT_EQ(cluster.simulation.run(cluster.head->logs(id, 2, 0, 1000)).value().text, "rank 2 is ready\n");
  EXPECT_EQ(cluster.simulation.run(cluster.head->logs(id, 3, 0, 1000)).error().code, Errc::not_found);
  EXPECT_THAT(cluster.simulation.run(cluster.head->log_sizes(id)).value(), SizeIs(3));
}

TEST(JobRoles, AServerThatReportsNothingHoldsUpNoFigures) {
  FakeCluster cluster;
  cluster.script.silent_servers = true;
  cluster.add_node("a", 4);
  const auto ended = cluster.await_end(cluster.submit_job(2, served(1)));
  ASSERT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.step, 10u);
  EXPECT_EQ(ended.summary["bytes_sent"], 2 * 1000);
}

TEST(JobRoles, AKilledServerFailsTheJobAndIsNamed) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.add_node("b", 1);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2, served(1));
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step > 3; }));
  ASSERT_THAT(cluster.spawners["b"]->children(), SizeIs(1));
  const auto pid = cluster.spawners["b"]->children()[0].pid();
  cluster.spawners["b"]->kill(0);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason,
              AllOf(HasSubstr("server 0 on node b (process " + std::to_string(pid) + ")"), HasSubstr("signal 9")));
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(JobRoles, AKilledServerIsReplacedFromTheNewestCheckpoint) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.add_node("b", 1);
  cluster.script.checkpoint_every = 5;
  cluster.script.steps = 20;
  const auto id = cluster.submit_job(2, served(1, {{"fault_tolerance", {{"max_restarts", 1}}}}));
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step == 12; }));
  cluster.spawners["b"]->kill(0);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  ASSERT_THAT(cluster.script.resumed, SizeIs(6));
  EXPECT_FALSE(cluster.script.resumed[5].part.empty());
}

TEST(JobRoles, AStoppedJobGoesOnInItsModeAndWithAsManyServersOnly) {
  FakeCluster cluster;
  cluster.add_node("a", 4);
  cluster.script.steps = 100'000;
  const auto first = cluster.submit_job(2, served(1));
  ASSERT_TRUE(cluster.await_job(first, [](const JobRecord& job) { return job.step >= 4; }));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(first)));
  EXPECT_EQ(cluster.await_end(first).state, JobState::stopped);
  ASSERT_THAT(cluster.simulation.run(cluster.head->checkpoints(first)).value(), SizeIs(1));
  cluster.script.steps = 5;
  const json resume = {{"checkpoint", {{"resume_from", {{"job", first}}}}}};
  const auto refused = cluster.submit(FakeCluster::spec(2, served(2, resume)));
  ASSERT_THAT(refused.problems, SizeIs(1));
  EXPECT_EQ(refused.problems[0].message,
            "the checkpoint is of 2 workers and 1 server, and the job has 2 workers and 2 servers");
  const auto other_mode = cluster.submit(FakeCluster::spec(2, resume));
  ASSERT_THAT(other_mode.problems, SizeIs(2));
  EXPECT_EQ(other_mode.problems[0].message, "/training/mode must be as in job " + first);
  EXPECT_EQ(cluster.await_end(cluster.submit_job(2, served(1, resume))).state, JobState::succeeded);
  EXPECT_FALSE(cluster.script.resumed.back().part.empty());
}

TEST(JobRoles, AWorkerBinaryWithoutServersFailsTheJobWithASentence) {
  FakeCluster cluster;
  cluster.script.missing_types = {"parameter_server"};
  cluster.add_node("a", 4);
  const auto ended = cluster.await_end(cluster.submit_job(2, served(1, {{"fault_tolerance", {{"max_restarts", 3}}}})));
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_EQ(ended.restarts, 0u);
  EXPECT_THAT(ended.reason,
              AllOf(HasSubstr("server 0 on node a"), HasSubstr("this worker has no actor type 'parameter_server'")));
}

TEST(JobRoles, WorkersAndServersWaitForRoomTogether) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  const auto id = cluster.submit_job(2, served(1));
  cluster.simulation.pass(1s);
  EXPECT_EQ(cluster.processes(), 0u);
  EXPECT_THAT(cluster.job(id).reason, HasSubstr("a server needs 1"));
  cluster.add_node("b", 1);
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded);
}

TEST(JobRoles, ValidateTellsWhereEachRoleWouldBe) {
  FakeCluster cluster;
  cluster.add_node("a", 3);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  const auto valid = cluster.simulation.run(cluster.head->validate(FakeCluster::spec(2, served(1)))).value();
  EXPECT_EQ(valid.placement["workers"][2], (json{{"rank", 2}, {"role", "server"}, {"node", "a"}}));
  const auto many = cluster.submit(FakeCluster::spec(2, served(65)));
  ASSERT_THAT(many.problems, SizeIs(1));
  EXPECT_EQ(many.problems[0].pointer, "/training/params/servers");
}

}  // namespace
}  // namespace weir::cluster
