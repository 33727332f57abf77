#include "cluster/node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errc.hpp"
#include "cluster/host.hpp"
#include "protocol/accounts.hpp"
#include "protocol/worker_environment.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST(Node, JoinsAndIsSeen) {
  FakeCluster cluster;
  cluster.add_node("a", 3);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto node = cluster.node("a");
  EXPECT_EQ(node.resources.at("cpu"), 3);
  EXPECT_GT(node.lease_id, 0u);
  EXPECT_EQ(cluster.simulation.run(cluster.head->nodes())->size(), 1u);
}

TEST(Node, ASilentNodeIsLostWhenItsLeaseIsOver) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto id = cluster.submit_job(2);
  ASSERT_TRUE(cluster.await_job(id, [](const JobRecord& job) { return job.step >= 2; }));
  const auto before = cluster.simulation.clock().now();
  cluster.simulation.transport().freeze();
  ASSERT_TRUE(cluster.await_node("a", NodeState::lost));
  EXPECT_GE(cluster.simulation.clock().now() - before, 9s);
  EXPECT_LE(cluster.simulation.clock().now() - before, 11s);
  EXPECT_EQ(cluster.processes(), 0u) << "nobody could tell the node, but its lease has run out";
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, AllOf(HasSubstr("node a was lost"), HasSubstr("no heartbeat"), HasSubstr("worker 0")));
  cluster.simulation.pass(20s);
  cluster.simulation.transport().thaw();
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive)) << "it joins again by itself";
  cluster.script.steps = 3;
  EXPECT_EQ(cluster.await_end(cluster.submit_job(2)).state, JobState::succeeded);
}

TEST(Node, NothingIsPlacedOnANodeThatIsSilent) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.simulation.pass(1s);
  cluster.node_processes["a"]->stop();
  cluster.simulation.pass(3s);
  const auto id = cluster.submit_job(1);
  cluster.simulation.pass(1s);
  EXPECT_EQ(cluster.job(id).state, JobState::pending);
  cluster.node_processes["a"]->resume();
  EXPECT_EQ(cluster.await_end(id).state, JobState::succeeded) << "its next heartbeat is seen";
}

TEST(Node, ANameIsTakenOnce) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  auto first = std::move(cluster.nodes["a"]);
  cluster.add_node("a", 1);
  cluster.simulation.pass(30s);
  ASSERT_TRUE(cluster.node_results["a"]->has_value());
  EXPECT_EQ((*cluster.node_results["a"])->error().code, Errc::conflict);
  EXPECT_THAT((*cluster.node_results["a"])->error().context, HasSubstr("choose another --name"));
  EXPECT_EQ(cluster.node("a").state, NodeState::alive);
  cluster.simulation.run(first->stop());
}

/// The head may be stopped, or not be there, for longer than a name may be taken.
TEST(Node, ANameIsTakenFromTheFirstAnswerThatSaysSo) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto first_process = std::move(cluster.node_processes["a"]);
  const auto first = std::move(cluster.nodes["a"]);
  cluster.add_node("a", 1);
  cluster.simulation.pass(3s);  // it is told that the name is taken
  cluster.stop_head();
  cluster.simulation.pass(30s);
  cluster.node_processes["a"]->stop();
  cluster.start_head();
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive)) << "the first one";
  cluster.node_processes["a"]->resume();
  cluster.simulation.pass(6s);  // longer than its longest pause: it is told so again
  ASSERT_FALSE(cluster.node_results["a"]->has_value());
  cluster.simulation.run(first->stop());
  cluster.simulation.pass(10s);
  EXPECT_FALSE(cluster.node_results["a"]->has_value());
  EXPECT_EQ(cluster.node("a").state, NodeState::alive);
}

TEST(Node, AWrongSecretIsHopeless) {
  FakeCluster cluster;
  WorkerSpawner spawner(cluster.simulation, cluster.script);
  NodeOptions options;
  options.head = "head:6380";
  options.secret = "guess";
  options.name = options.host = "thief";
  options.version = "test";
  Node node(std::move(options), cluster.simulation.executor(), cluster.simulation.clock(),
            cluster.simulation.transport(), spawner);
  const auto ended = cluster.simulation.run(node.run());
  EXPECT_EQ(ended.error().code, Errc::unauthenticated);
  EXPECT_TRUE(cluster.simulation.run(cluster.head->nodes())->empty());
  cluster.simulation.run(node.stop());
}

/// Of a head from before nodes asked whether their version may join.
struct OldMembership {
  static constexpr std::string_view type_name = "membership";
  virtual ~OldMembership() = default;
  virtual net::awaitable<Result<void>> join() = 0;
  static constexpr auto methods() { return runtime::methods<runtime::Method<&OldMembership::join, "join">>(); }
};

class OldHead final : public runtime::Actor<OldMembership> {
 public:
  net::awaitable<Result<void>> join() override { co_return Error{Errc::malformed, "arguments"}; }
};

TEST(Node, AnOlderHeadIsHopeless) {
  runtime::testing::Simulation simulation(1);
  runtime::ActorSystem head({.name = "head",
                             .executor = simulation.executor(),
                             .clock = simulation.clock(),
                             .transport = simulation.transport(),
                             .secret = "secret",
                             .account = std::string(protocol::accounts::node)});
  ASSERT_TRUE(head.spawn<OldHead>("membership"));
  ASSERT_TRUE(head.listen(runtime::Endpoint("head", 1)));
  runtime::testing::FakeProcessSpawner spawner;
  NodeOptions options;
  options.head = "head:1";
  options.secret = "secret";
  options.name = options.host = "a";
  options.version = "test";
  Node node(std::move(options), simulation.executor(), simulation.clock(), simulation.transport(), spawner);
  const auto ended = simulation.run(node.run());
  EXPECT_EQ(ended.error().code, Errc::unsupported);
  EXPECT_THAT(ended.error().context, HasSubstr("the head is of an older weir"));
  simulation.run(node.stop());
  simulation.run(head.stop());
}

TEST(Node, ADrainedNodeFinishesWhatItHasAndTakesNothingNew) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto first = cluster.submit_job(1);
  cluster.await_phase(first, JobPhase::training);
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a"))->state, NodeState::draining);
  const auto second = cluster.submit_job(1);
  EXPECT_EQ(cluster.await_end(first).state, JobState::succeeded);
  EXPECT_EQ(cluster.job(second).state, JobState::pending);
  EXPECT_THAT(cluster.job(second).reason, HasSubstr("node a is draining"));
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("zzz")).error().code, Errc::not_found);
}

TEST(Node, AStoppedNodeTakesItsWorkersAlong) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.steps = 100'000;
  const auto id = cluster.submit_job(2);
  cluster.await_phase(id, JobPhase::training);
  cluster.remove_node("a");
  EXPECT_EQ(cluster.processes(), 0u);
  const auto ended = cluster.await_end(id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_THAT(ended.reason, HasSubstr("node a was lost"));
}

TEST(Node, AWorkerLearnsTheSecretFromItsInputOnly) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  const auto id = cluster.submit_job(1, {{"resources", {{"per_worker", {{"cpu", 2}}}}}});
  cluster.await_end(id);
  const auto& spec = cluster.spawners["a"]->children().at(0).spec();
  ASSERT_EQ(spec.input.size(), 65u) << "the secret of the job, and a line end";
  const std::string secret = spec.input.substr(0, 64);
  EXPECT_EQ(spec.arguments, std::vector<std::string>{"run"});
  namespace environment = protocol::worker_environment;
  EXPECT_EQ(spec.environment.at(std::string(environment::threads)), "2");
  EXPECT_EQ(spec.environment.at(std::string(environment::listen_host)), "a");
  for (const auto& [name, value] : spec.environment) EXPECT_EQ(value.find(secret), std::string::npos) << name;
}

TEST(Host, KnowsItself) {
  const auto resources = host::resources();
  EXPECT_GE(resources.at("cpu"), 1);
  EXPECT_GT(resources.at("memory"), 1e6);
  EXPECT_EQ(host::address_towards("127.0.0.1:1"), "127.0.0.1");
  EXPECT_EQ(host::address_towards("nonsense"), "127.0.0.1");
  host::LoadMeter meter;
  const auto load = meter.sample();
  EXPECT_GT(load.memory_total_bytes, load.memory_used_bytes);
  EXPECT_GE(load.cpu, 0);
}

}  // namespace
}  // namespace weir::cluster
