// Jobs that go on though the head, a node or a link was away for a while, and those that must not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "cluster/head.hpp"
#include "protocol/accounts.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::vector<std::string> kinds(FakeCluster& cluster, const std::string& job_id = "") {
  std::vector<std::string> found;
  const auto page = cluster.simulation.run(cluster.head->events({.job_id = job_id, .limit = 1000})).value();
  for (const auto& event : page.events) found.push_back(event.kind);
  return found;
}

/// Two nodes with a worker each, in the middle of a job of 300 steps (30 s).
struct Running {
  explicit Running(int max_restarts = 0) {
    cluster.add_node("a", 1);
    cluster.add_node("b", 1);
    cluster.script.steps = 300;
    EXPECT_TRUE(cluster.await_node("a", NodeState::alive) && cluster.await_node("b", NodeState::alive));
    id = cluster.submit_job(2, {{"fault_tolerance", {{"max_restarts", max_restarts}}}});
    EXPECT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 3; }));
    leases = {cluster.node("a").lease_id, cluster.node("b").lease_id};
  }

  void expect_untouched() {
    const auto ended = cluster.await_end(id);
    EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
    EXPECT_EQ(ended.restarts, 0u);
    EXPECT_THAT(kinds(cluster), Not(Contains("node.lost")));
    EXPECT_EQ(cluster.node("a").lease_id, leases[0]);
    EXPECT_EQ(cluster.node("b").lease_id, leases[1]);
    EXPECT_THAT(cluster.spawners["a"]->children(), SizeIs(1));
    EXPECT_THAT(cluster.spawners["b"]->children(), SizeIs(1));
    EXPECT_EQ(cluster.processes(), 0u);
  }

  FakeCluster cluster;
  std::string id;
  std::vector<std::uint64_t> leases;
};

class StoppedFor : public ::testing::TestWithParam<std::chrono::seconds> {};

TEST_P(StoppedFor, AHeadLosesNothing) {
  Running running;
  running.cluster.head_process->stop();
  running.cluster.simulation.pass(GetParam());
  running.cluster.head_process->resume();
  running.expect_untouched();
}

TEST_P(StoppedFor, AnAgentLosesNothing) {
  Running running;
  running.cluster.node_processes["a"]->stop();
  running.cluster.simulation.pass(GetParam());
  running.cluster.node_processes["a"]->resume();
  running.expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Seconds, StoppedFor, ::testing::Values(1s, 3s, 8s),
                         [](const auto& info) { return std::to_string(info.param.count()); });

TEST(Survival, ABrokenLinkIsReplacedAndTheJobGoesOn) {
  Running running;
  running.cluster.simulation.transport().cut();  // those of nodes and workers
  running.expect_untouched();
  EXPECT_THAT(kinds(running.cluster), Contains("node.relinked").Times(2));
}

TEST(Survival, ALinkThatBreaksWhileAWorkerPreparesIsReplacedToo) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.prepare_time = 5s;
  const auto id = cluster.submit_job(2);
  cluster.await_phase(id, JobPhase::initialising);
  cluster.simulation.pass(1s);
  cluster.simulation.transport().cut();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
}

TEST(Survival, LinksThatBreakAgainAndAgainLoseNothing) {
  Running running;
  for (int i = 0; i < 50; ++i) {
    running.cluster.simulation.transport().cut();
    running.cluster.simulation.pass(std::chrono::milliseconds(37 * i % 900));
  }
  running.expect_untouched();
}

TEST(Survival, AHeadThatWasLateItselfGivesNobodyUp) {
  Running running;
  // The nodes lose their links, and while the head is stopped they cannot have new ones.
  running.cluster.simulation.transport().cut();
  running.cluster.simulation.settle();
  running.cluster.head_process->stop();
  running.cluster.simulation.pass(7s);
  running.cluster.head_process->resume();
  running.expect_untouched();
}

TEST(Survival, ANodeThatComesBackTooLateHasEndedItsWorkersBeforeItIsGivenNew) {
  Running running;
  auto& cluster = running.cluster;
  cluster.simulation.transport().cut();
  cluster.node_processes["a"]->stop();  // it cannot link itself anew; its worker can
  cluster.simulation.pass(5s);
  EXPECT_EQ(cluster.node("a").state, NodeState::lost);
  cluster.node_processes["a"]->resume();  // it asks for its old lease, which its lease still allows
  const auto ended = cluster.await_end(running.id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, AllOf(HasSubstr("node a was lost"), HasSubstr("the connection broke")));
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  EXPECT_GT(cluster.node("a").lease_id, running.leases[0]);
  EXPECT_EQ(cluster.node("b").lease_id, running.leases[1]);
  EXPECT_EQ(cluster.processes(), 0u);
  cluster.script.steps = 3;
  EXPECT_EQ(cluster.await_end(cluster.submit_job(2)).state, JobState::succeeded);
}

TEST(Survival, AnOrderThatANodeGetsAfterItsLeaseCostsOneAttempt) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.spawners["a"]->fail_next({Errc::conflict, "node a holds another lease by now"});
  const auto id = cluster.submit_job(1, {{"fault_tolerance", {{"max_restarts", 1}}}});
  EXPECT_EQ(cluster.await_phase(id, JobPhase::recovering).phase, JobPhase::recovering)
      << "nothing is placed there before the node is heard of again: it would cost one restart after the other";
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
}

TEST(Survival, AnAgentStoppedBeyondItsLeaseIsLostAndItsWorkersEndBeforeTheRestart) {
  Running running(1);
  auto& cluster = running.cluster;
  cluster.add_node("c", 1);
  cluster.script.checkpoint_every = 5;
  ASSERT_TRUE(cluster.await_job(running.id, [](const JobRecord& job) { return job.step >= 10; }));
  cluster.node_processes["a"]->stop();
  const auto training_again = [](const JobRecord& job) { return job.restarts == 1 && job.phase == JobPhase::training; };
  ASSERT_TRUE(cluster.await_job(running.id, training_again, 30s));
  EXPECT_EQ(cluster.spawners["a"]->alive(), 0u) << "its agent, stopped as it is, has not ended the worker";
  EXPECT_EQ(cluster.processes(), 2u);
  EXPECT_EQ(cluster.node("a").state, NodeState::lost);
  EXPECT_THAT(kinds(cluster, running.id), Contains("job.restart"));
  cluster.node_processes["a"]->resume();
  const auto ended = cluster.await_end(running.id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 1u);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  EXPECT_GT(cluster.node("a").lease_id, running.leases[0]);
  EXPECT_THAT(cluster.spawners["a"]->children(), SizeIs(1));
}

TEST(Survival, AHeadStoppedBeyondTheLeaseFindsItsWorkersEndedByTheirNodes) {
  Running running;
  auto& cluster = running.cluster;
  cluster.head_process->stop();
  cluster.simulation.pass(9s);
  EXPECT_EQ(cluster.processes(), 2u);
  cluster.simulation.pass(3s);
  EXPECT_EQ(cluster.processes(), 0u);
  cluster.simulation.pass(30s);
  cluster.head_process->resume();
  const auto ended = cluster.await_end(running.id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, HasSubstr("was lost"));
  cluster.script.steps = 3;
  EXPECT_EQ(cluster.await_end(cluster.submit_job(2)).state, JobState::succeeded);
}

TEST(Survival, ANodeThatAsksAnewBecauseItsJoinWasAnsweredTooLateIsAnsweredOnTheSameLink) {
  FakeCluster cluster;
  cluster.store_process->stop();  // the disk is slow: the join is not committed within the 5 s that the agent waits
  cluster.add_node("a", 1);
  cluster.simulation.pass(5500ms);
  cluster.store_process->resume();
  cluster.simulation.pass(10s);
  EXPECT_THAT(kinds(cluster), ElementsAre("node.joined", "node.lost", "node.joined"));
}

TEST(Survival, NodesWhoseLeasesEndedWhileTheHeadWasStoppedJoinAnewInOneRound) {
  Running running;
  auto& cluster = running.cluster;
  cluster.head_process->stop();
  cluster.simulation.pass(12s);
  cluster.head_process->resume();
  cluster.simulation.pass(10s);
  EXPECT_THAT(kinds(cluster), Contains("node.joined").Times(4));
  EXPECT_THAT(kinds(cluster), Contains("node.lost").Times(2));
}

TEST(Survival, AWorkerWhoseStartWasLostWithALinkIsStartedOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  cluster.simulation.transport().freeze();  // what the head says now never arrives
  const auto id = cluster.submit_job(1);
  cluster.await_phase(id, JobPhase::spawning);
  cluster.simulation.pass(100ms);
  EXPECT_THAT(cluster.spawners["a"]->children(), IsEmpty());
  cluster.simulation.transport().thaw();
  cluster.simulation.transport().cut();
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 0u);
  EXPECT_THAT(cluster.spawners["a"]->children(), SizeIs(1));
}

TEST(Survival, AWorkerIsEndedThoughTheLinkBreaksAsItShallStop) {
  Running running;
  auto& cluster = running.cluster;
  cluster.simulation.transport().freeze();
  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(running.id)));
  cluster.simulation.pass(100ms);
  cluster.simulation.transport().thaw();
  cluster.simulation.transport().cut();
  const auto before = cluster.simulation.clock().now();
  const auto ended = cluster.await_end(running.id);
  EXPECT_EQ(ended.state, JobState::stopped) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("stopped on request at step"));
  EXPECT_LT(cluster.simulation.clock().now() - before, 10s);
  EXPECT_EQ(cluster.processes(), 0u);
}

TEST(Survival, ALargeShareOnASlowLineIsSentOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.script.steps = 10;
  cluster.script.checkpoint_every = 10;
  cluster.script.share_values = 500'000;
  cluster.simulation.transport().limit_rate(20'000);  // 100 s for the share
  const auto before = cluster.simulation.clock().now();
  const auto id = cluster.submit_job(1);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::succeeded) << ended.reason;
  EXPECT_EQ(ended.restarts, 0u);
  EXPECT_LT(cluster.simulation.clock().now() - before, 150s);
  EXPECT_THAT(kinds(cluster, id), Contains("checkpoint.saved").Times(1));
}

TEST(Survival, AReportIsAcknowledgedWhenItIsCommittedAndNotBefore) {
  Running running;
  auto& cluster = running.cluster;
  cluster.store_process->stop();  // the disk is slow: nothing is committed
  const auto acknowledged = cluster.script.acknowledged;
  cluster.simulation.pass(5s);
  EXPECT_LE(cluster.script.acknowledged, acknowledged + 1) << "one may have been committed, its answer on the way";
  const auto before = cluster.script.acknowledged;
  cluster.simulation.pass(5s);
  EXPECT_EQ(cluster.script.acknowledged, before);
  cluster.store_process->resume();
  cluster.simulation.pass(1s);
  EXPECT_GT(cluster.script.acknowledged, before);
  running.expect_untouched();
}

// --- the agent alone, before a head that follows a script ---

/// Lets nodes join, and answers heartbeats as it is told.
class ScriptedHead final : public runtime::Actor<protocol::Membership> {
 public:
  struct Script {
    std::optional<Error> version_fails;
    std::optional<Error> heartbeats_fail;
    std::vector<protocol::NodeInfo> joins;
    std::optional<runtime::ActorRef<protocol::NodeAgent>> agent;
    std::uint64_t lease_id = 7;
    std::uint64_t heartbeats = 0;                         ///< answered well
    std::optional<protocol::WorkerLaunch> order_in_join;  ///< to be carried out before the next join is answered
  };
  explicit ScriptedHead(Script& script) : script_(script) {}

  net::awaitable<Result<void>> check_version(std::string node_name, std::string version) override {
    EXPECT_EQ(node_name, "a");
    EXPECT_EQ(version, "test");
    if (script_.version_fails) co_return *script_.version_fails;
    co_return Result<void>();
  }
  net::awaitable<Result<protocol::NodeWelcome>> join(protocol::NodeInfo info,
                                                     runtime::ActorRef<protocol::NodeAgent> agent) override {
    script_.joins.push_back(info);
    script_.agent = std::move(agent);
    if (const auto order = std::exchange(script_.order_in_join, std::nullopt)) {
      const auto started = co_await script_.agent->call<&protocol::NodeAgent::start_worker>(*order);
      EXPECT_TRUE(started);
    }
    protocol::NodeWelcome welcome;
    welcome.node_id = "node";
    welcome.lease_id = script_.lease_id;
    welcome.workers = info.workers;
    co_return welcome;
  }
  net::awaitable<Result<void>> heartbeat(protocol::NodeHeartbeat) override {
    if (script_.heartbeats_fail) co_return *script_.heartbeats_fail;
    ++script_.heartbeats;
    co_return Result<void>();
  }
  net::awaitable<Result<void>> worker_exited(protocol::WorkerExit) override { co_return Result<void>(); }
  net::awaitable<Result<void>> output(protocol::OutputBatch) override { co_return Result<void>(); }

 private:
  Script& script_;
};

/// A node with one worker, joined with a scripted head.
struct Agent {
  Agent() {
    EXPECT_TRUE(system.spawn<ScriptedHead>("membership", script));
    EXPECT_TRUE(system.listen(runtime::Endpoint("head", 1)));
    NodeOptions options;
    options.head = "head:1";
    options.secret = "secret";
    options.name = options.host = "a";
    options.version = "test";
    options.worker_program = "/weir-worker";
    node = std::make_unique<Node>(std::move(options), simulation.executor(), simulation.clock(), simulation.transport(),
                                  spawner);
    net::co_spawn(simulation.executor(), node->run(), [](const std::exception_ptr&, const Result<void>&) {});
    EXPECT_TRUE(simulation.run_until([this] { return script.heartbeats > 0; }));
    const auto launch = order("w");
    const auto started = simulation.run(script.agent->call<&protocol::NodeAgent::start_worker>(launch));
    EXPECT_EQ(started.value().pid, worker().pid());
    const auto again = simulation.run(script.agent->call<&protocol::NodeAgent::start_worker>(launch));
    EXPECT_EQ(again.value().pid, worker().pid()) << "a repeated start starts nothing";
    EXPECT_THAT(spawner.children(), SizeIs(1));
  }
  ~Agent() {
    simulation.run(node->stop());
    simulation.run(system.stop());
  }
  const runtime::testing::FakeChild& worker() const { return spawner.children().at(0); }
  protocol::WorkerLaunch order(const std::string& worker_id) const {
    protocol::WorkerLaunch launch;
    launch.worker_id = worker_id;
    launch.lease_id = script.lease_id;
    return launch;
  }

  runtime::testing::Simulation simulation{1};
  ScriptedHead::Script script;
  runtime::testing::FakeProcessSpawner spawner;
  runtime::ActorSystem system{{.name = "head",
                               .executor = simulation.executor(),
                               .clock = simulation.clock(),
                               .transport = simulation.transport(),
                               .secret = "secret",
                               .account = std::string(protocol::accounts::node)}};
  std::unique_ptr<Node> node;
};

TEST(Lease, AHeartbeatThatFindsAFullMailboxIsSentAgain) {
  for (const auto code : {Errc::mailbox_full, Errc::exhausted, Errc::deadline_exceeded, Errc::io}) {
    Agent agent;
    agent.script.heartbeats_fail = Error{code, "not now"};
    agent.simulation.pass(9s);
    agent.script.heartbeats_fail.reset();
    const auto before = agent.script.heartbeats;
    agent.simulation.pass(20s);
    EXPECT_GE(agent.script.heartbeats, before + 38) << "one every 500 ms";
    EXPECT_THAT(agent.script.joins, SizeIs(1));
    EXPECT_TRUE(agent.worker().alive());
  }
}

TEST(Lease, IsOverWhenNoHeartbeatWasAnsweredForItsWholeTime) {
  Agent agent;
  agent.simulation.pass(1s);
  agent.script.heartbeats_fail = Error{Errc::mailbox_full, "not now"};
  agent.simulation.pass(9s);
  EXPECT_TRUE(agent.worker().alive());
  agent.simulation.pass(1500ms);
  EXPECT_FALSE(agent.worker().alive());
  agent.script.heartbeats_fail.reset();
  ASSERT_TRUE(agent.simulation.run_until([&] { return agent.script.joins.size() == 2; }));
  EXPECT_EQ(agent.script.joins[1].lease_id, 0u) << "there is nothing to go on with";
  EXPECT_THAT(agent.script.joins[1].workers, IsEmpty());
}

TEST(Lease, ABrokenLinkIsReplacedUnderTheSameLease) {
  Agent agent;
  agent.simulation.transport().cut();
  ASSERT_TRUE(agent.simulation.run_until([&] { return agent.script.joins.size() == 2; }, 2s));
  EXPECT_EQ(agent.script.joins[1].lease_id, 7u);
  EXPECT_EQ(agent.script.joins[1].workers, std::vector<std::string>{"w"});
  agent.simulation.pass(1min);
  EXPECT_TRUE(agent.worker().alive());
}

TEST(Lease, AHeadOfAnotherVersionIsToldNothingThatItMayNotUnderstand) {
  Agent agent;
  agent.script.version_fails = Error{Errc::unsupported, "install the same version on both"};
  agent.simulation.transport().cut();
  agent.simulation.pass(1min);
  EXPECT_THAT(agent.script.joins, SizeIs(1));
  agent.script.version_fails.reset();
  EXPECT_TRUE(agent.simulation.run_until([&] { return agent.script.joins.size() == 2; })) << "it goes on trying";
}

TEST(Lease, AWorkerThatIsStartedWhileTheNodeLinksItselfAnewGoesOn) {
  Agent agent;
  agent.script.order_in_join = agent.order("late");
  agent.simulation.transport().cut();
  ASSERT_TRUE(agent.simulation.run_until([&] { return agent.script.joins.size() == 2; }, 2s));
  EXPECT_EQ(agent.script.joins[1].workers, std::vector<std::string>{"w"}) << "the other one has not been started yet";
  agent.simulation.pass(1min);
  ASSERT_THAT(agent.spawner.children(), SizeIs(2));
  EXPECT_TRUE(agent.worker().alive());
  EXPECT_TRUE(agent.spawner.children()[1].alive());
}

TEST(Lease, AnotherLeaseEndsWhatRan) {
  Agent agent;
  agent.script.lease_id = 8;
  agent.simulation.transport().cut();
  const auto heartbeats = agent.script.heartbeats;
  ASSERT_TRUE(agent.simulation.run_until([&] { return !agent.worker().alive(); }, 2s));
  EXPECT_EQ(agent.script.heartbeats, heartbeats) << "it shall be gone before the first heartbeat";
}

TEST(Lease, AFencedNodeEndsItsWorkersAtOnce) {
  Agent agent;
  agent.script.heartbeats_fail = Error{Errc::conflict, "given up"};
  ASSERT_TRUE(agent.simulation.run_until([&] { return !agent.worker().alive(); }, 1s));
  agent.script.heartbeats_fail.reset();
  ASSERT_TRUE(agent.simulation.run_until([&] { return agent.script.joins.size() == 2; }, 2s));
  EXPECT_EQ(agent.script.joins[1].lease_id, 0u);
}

// --- the drain ---

TEST(Drain, LastsOverANewLinkANewAgentAndANewHead) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  ASSERT_TRUE(cluster.simulation.run(cluster.head->drain("a")));
  const auto waits = cluster.submit_job(1);

  cluster.simulation.transport().cut();
  cluster.simulation.pass(5s);
  EXPECT_EQ(cluster.node("a").state, NodeState::draining);

  cluster.remove_node("a");
  ASSERT_TRUE(cluster.await_node("a", NodeState::lost));
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::draining));

  cluster.kill_head();
  cluster.start_head();
  ASSERT_TRUE(cluster.await_node("a", NodeState::draining));
  cluster.simulation.pass(5s);
  EXPECT_EQ(cluster.job(waits).state, JobState::pending);

  EXPECT_EQ(cluster.simulation.run(cluster.head->undrain("a"))->state, NodeState::alive);
  EXPECT_EQ(cluster.await_end(waits).state, JobState::succeeded);
  EXPECT_EQ(cluster.simulation.run(cluster.head->undrain("zzz")).error().code, Errc::not_found);
}

TEST(Drain, IsTakenBackWhileTheNodeIsLost) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->drain("a")));
  cluster.remove_node("a");
  ASSERT_TRUE(cluster.await_node("a", NodeState::lost));
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a")).error().code, Errc::conflict);
  EXPECT_EQ(cluster.simulation.run(cluster.head->undrain("a"))->state, NodeState::lost);
  cluster.add_node("a", 1);
  EXPECT_TRUE(cluster.await_node("a", NodeState::alive));
}

}  // namespace
}  // namespace weir::cluster
