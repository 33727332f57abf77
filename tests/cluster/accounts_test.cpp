// Who may say what to a head: nodes, and the workers of each job for their own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/errc.hpp"
#include "protocol/accounts.hpp"
#include "protocol/training.hpp"
#include "protocol/worker_environment.hpp"
#include "runtime/actor_system.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

namespace accounts = protocol::accounts;

/// Calls the head, and does nothing when it is called.
class Nobody final : public runtime::Actor<protocol::Worker, protocol::NodeAgent> {
 public:
  net::awaitable<Result<std::uint64_t>> create(std::string, std::string) override { co_return Error{Errc::not_found}; }
  net::awaitable<Result<protocol::WorkerStarted>> start_worker(protocol::WorkerLaunch) override {
    co_return Error{Errc::not_found};
  }
  net::awaitable<Result<void>> stop_worker(std::string, std::uint32_t) override { co_return Result<void>(); }
};

class Accounts : public ::testing::Test {
 protected:
  Accounts() {
    cluster.add_node("a", 2);
    cluster.script.steps = 100'000;
    mine = cluster.submit_job(1);
    cluster.await_phase(mine, JobPhase::training);
    other = cluster.submit_job(1);
    cluster.await_phase(other, JobPhase::training);
  }

  /// What the worker of that job was told.
  const runtime::ProcessSpec& told(const std::string& job) {
    for (const auto& child : cluster.spawners["a"]->children())
      if (child.spec().environment.at(std::string(protocol::worker_environment::job_id)) == job) return child.spec();
    ADD_FAILURE() << "no worker of " << job;
    return cluster.spawners["a"]->children().at(0).spec();
  }
  std::string secret(const std::string& job) { return told(job).input.substr(0, told(job).input.find('\n')); }
  std::string worker(const std::string& job) {
    return told(job).environment.at(std::string(protocol::worker_environment::worker_id));
  }

  /// Links with the head on an account; the system is `intruder` then.
  Result<runtime::PeerId> link(const std::string& account, const std::string& secret) {
    intruder = std::make_unique<runtime::ActorSystem>(
        runtime::ActorSystem::Options{.name = "intruder",
                                      .executor = cluster.simulation.executor(),
                                      .clock = cluster.simulation.clock(),
                                      .transport = cluster.simulation.transport(),
                                      .secret = secret,
                                      .account = account});
    return cluster.simulation.run(intruder->connect(runtime::Endpoint("head", 6380)));
  }

  template <auto Method, class Interface, class... Arguments>
  Errc call(const runtime::ActorRef<Interface>& actor, Arguments... arguments) {
    const auto answer = cluster.simulation.run(actor.template call<Method>(std::move(arguments)...));
    return answer ? Errc{} : static_cast<Errc>(answer.error().code.value());
  }

  FakeCluster cluster;
  std::string mine;
  std::string other;
  std::unique_ptr<runtime::ActorSystem> intruder;
};

TEST_F(Accounts, EachJobHasItsOwnSecret) {
  EXPECT_EQ(secret(mine).size(), 64u);
  EXPECT_NE(secret(mine), secret(other));
  EXPECT_EQ(link(accounts::job(other), secret(mine)).error().code, Errc::unauthenticated);
  EXPECT_EQ(link(std::string(accounts::node), secret(mine)).error().code, Errc::unauthenticated);
  EXPECT_EQ(link("", secret(mine)).error().code, Errc::unauthenticated);
}

TEST_F(Accounts, WorkersDoNotGetTheSecretsOfTheirNode) {
  ::setenv("WEIR_TOKEN", "of the API", 1);
  ::setenv("WEIR_NODE_SECRET", "of nodes", 1);
  cluster.add_node("b", 1);
  cluster.await_phase(cluster.submit_job(1), JobPhase::training);
  ::unsetenv("WEIR_TOKEN");
  ::unsetenv("WEIR_NODE_SECRET");
  const auto& environment = cluster.spawners["b"]->children().at(0).spec().environment;
  EXPECT_FALSE(environment.contains("WEIR_TOKEN"));
  EXPECT_FALSE(environment.contains("WEIR_NODE_SECRET"));
  EXPECT_TRUE(environment.contains("PATH")) << "everything else is passed on";
}

TEST_F(Accounts, WorkerSpeaksForItsOwnJobOnly) {
  using protocol::Coordinator;
  const auto head = link(accounts::job(mine), secret(mine));
  ASSERT_TRUE(head) << head.error().message();
  const auto coordinator = intruder->find<Coordinator>(*head, "coordinator");
  const auto actor = intruder->spawn<Nobody>("worker").value().as<protocol::Worker>();
  EXPECT_EQ((call<&Coordinator::worker_up>(coordinator, worker(other), actor)), Errc::unauthenticated);
  const auto elsewhere = intruder->ref<protocol::Worker>(*head, actor.address().actor);
  EXPECT_EQ((call<&Coordinator::worker_up>(coordinator, worker(mine), elsewhere)), Errc::unauthenticated)
      << "an actor of another process";
  protocol::Report report;
  report.job_id = other;
  EXPECT_EQ((call<&Coordinator::report>(coordinator, report)), Errc::unauthenticated);
  protocol::CheckpointPiece piece;
  piece.job_id = other;
  EXPECT_EQ((call<&Coordinator::checkpoint>(coordinator, piece)), Errc::unauthenticated);
  protocol::TrainingEnd end;
  end.job_id = other;
  EXPECT_EQ((call<&Coordinator::ended>(coordinator, end)), Errc::unauthenticated);
  // For its own it is heard: this is no attempt of it.
  report.job_id = mine;
  EXPECT_EQ((call<&Coordinator::report>(coordinator, report)), Errc::conflict);
  EXPECT_EQ(cluster.job(other).state, JobState::running);
}

TEST_F(Accounts, WorkerIsNoNode) {
  using protocol::Membership;
  const auto head = link(accounts::job(mine), secret(mine));
  ASSERT_TRUE(head) << head.error().message();
  const auto membership = intruder->find<Membership>(*head, "membership");
  const auto agent = intruder->spawn<Nobody>("agent").value().as<protocol::NodeAgent>();
  protocol::NodeInfo info;
  info.name = info.host = "intruder";
  info.version = "test";
  EXPECT_EQ((call<&Membership::check_version>(membership, info.name, info.version)), Errc::unauthenticated);
  EXPECT_EQ((call<&Membership::join>(membership, info, agent)), Errc::unauthenticated);
  EXPECT_EQ((call<&Membership::heartbeat>(membership, protocol::NodeHeartbeat{})), Errc::unauthenticated);
  EXPECT_EQ((call<&Membership::worker_exited>(membership, protocol::WorkerExit{})), Errc::unauthenticated);
  EXPECT_EQ((call<&Membership::output>(membership, protocol::OutputBatch{})), Errc::unauthenticated);
  EXPECT_EQ(cluster.simulation.run(cluster.head->nodes())->size(), 1u);
}

TEST_F(Accounts, NodeOfAnotherVersionIsRefused) {
  using protocol::Membership;
  const auto head = link(std::string(accounts::node), "secret");
  ASSERT_TRUE(head) << head.error().message();
  const auto membership = intruder->find<Membership>(*head, "membership");
  EXPECT_EQ((call<&Membership::check_version>(membership, std::string("b"), std::string("test"))), Errc{});
  EXPECT_EQ((call<&Membership::check_version>(membership, std::string("b"), std::string("test+1"))), Errc::unsupported);
  const auto agent = intruder->spawn<Nobody>("agent").value().as<protocol::NodeAgent>();
  protocol::NodeInfo info;
  info.name = info.host = "b";
  info.version = "test+1";
  EXPECT_EQ((call<&Membership::join>(membership, info, agent)), Errc::unsupported);
}

TEST_F(Accounts, NodeIsNoWorker) {
  const auto head = link(std::string(accounts::node), "secret");
  ASSERT_TRUE(head) << head.error().message();
  protocol::Report report;
  report.job_id = mine;
  EXPECT_EQ((call<&protocol::Coordinator::report>(intruder->find<protocol::Coordinator>(*head, "coordinator"), report)),
            Errc::unauthenticated);
}

TEST_F(Accounts, SecretIsVoidWhenTheAttemptHasEnded) {
  ASSERT_TRUE(link(accounts::job(mine), secret(mine)));
  cluster.simulation.run(cluster.head->stop_job(mine));
  cluster.await_end(mine);
  cluster.simulation.settle();
  EXPECT_TRUE(intruder->peers().empty()) << "a link that was open is closed";
  EXPECT_EQ(link(accounts::job(mine), secret(mine)).error().code, Errc::unauthenticated);
}

}  // namespace
}  // namespace weir::cluster
