// The real program, as a node agent starts it, against a head that is played here.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <map>
#include <thread>

#include "base/errc.hpp"
#include "protocol/accounts.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/worker_environment.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/clock.hpp"
#include "runtime/process.hpp"
#include "runtime/tcp_transport.hpp"
#include "tests/actors/office.hpp"

namespace weir {
namespace {

using actors::testing::job;
using actors::testing::Office;
using actors::testing::patience;
namespace environment = protocol::worker_environment;

class Worker : public ::testing::Test {
 protected:
  ~Worker() override {
    await(system_.stop());
    io_.stop();
  }

  template <class T>
  T await(net::awaitable<T> task) {
    auto future = net::co_spawn(io_, std::move(task), net::use_future);
    if (future.wait_for(patience) != std::future_status::ready) std::abort();
    return future.get();
  }

  std::unique_ptr<runtime::Process> start(const std::string& id, const std::map<std::string, std::string>& more = {}) {
    runtime::ProcessSpec spec;
    spec.program = WEIR_WORKER_PROGRAM;
    spec.arguments = {"run"};
    spec.environment = runtime::current_environment();
    spec.environment[std::string(environment::worker_id)] = id;
    spec.environment[std::string(environment::job_id)] = "job";
    spec.environment[std::string(environment::head)] = endpoint_.text();
    for (const auto& [name, value] : more) spec.environment[name] = value;
    spec.input = "secret\n";
    return spawner_->spawn(io_.get_executor(), spec).value();
  }

  std::optional<int> exit_code(runtime::Process& process) { return await(process.wait()).value().exit_code; }

  runtime::ActorRef<protocol::Worker> wait_for(const std::string& id) {
    EXPECT_TRUE(book.wait([&] { return book.workers.contains(id); }));
    const std::lock_guard lock(book.mutex);
    return book.workers.at(id).within(patience);
  }

  Office::Book book;

 private:
  net::io_context io_{1};
  net::executor_work_guard<net::io_context::executor_type> work_{net::make_work_guard(io_)};
  runtime::SystemClock clock_;
  std::unique_ptr<runtime::Transport> transport_ = runtime::make_tcp_transport(io_.get_executor());
  std::unique_ptr<runtime::ProcessSpawner> spawner_ = runtime::make_process_spawner();

 protected:
  runtime::ActorSystem system_{{.name = "head",
                                .executor = io_.get_executor(),
                                .clock = clock_,
                                .transport = *transport_,
                                .secret = "secret",
                                .account = protocol::accounts::job("job")}};

 private:
  runtime::ActorRef<Office> office_ = system_.spawn<Office>("coordinator", book).value();
  runtime::Endpoint endpoint_ = system_.listen({"127.0.0.1", 0}).value();
  std::jthread thread_{[this] { io_.run(); }};
};

TEST_F(Worker, TwoProcessesTrainTogether) {
  std::vector<std::unique_ptr<runtime::Process>> processes;
  for (const char* id : {"w0", "w1"}) processes.push_back(start(id));
  std::vector<runtime::ActorRef<protocol::Training>> trainers;
  std::vector<protocol::RankEndpoint> peers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto actor = wait_for("w" + std::to_string(rank));
    const auto trainer = await(actor.call<&protocol::Worker::create>("trainer", "trainer"));
    ASSERT_TRUE(trainer) << trainer.error().message();
    EXPECT_EQ(await(actor.call<&protocol::Worker::create>("trainer", "trainer")).value(), *trainer) << "a repeat";
    trainers.push_back(system_.ref<protocol::Training>({actor.address().process}, *trainer).within(patience));
    const protocol::Assignment assignment{.job_id = "job",
                                          .spec = job("dgc").dump(),
                                          .rank = rank,
                                          .world = 2,
                                          .members = 2,
                                          .attempt = 1,
                                          .group_secret = "group",
                                          .listen_host = "127.0.0.1"};
    const auto prepared = await(trainers[rank].call<&protocol::Training::prepare>(assignment));
    ASSERT_TRUE(prepared) << prepared.error().message();
    peers.push_back(prepared->endpoint);
  }
  auto first = std::async([&] { return await(trainers[0].call<&protocol::Training::start>(peers)); });
  const auto second = await(trainers[1].call<&protocol::Training::start>(peers));
  ASSERT_TRUE(second) << second.error().message();
  ASSERT_TRUE(first.get());
  ASSERT_TRUE(book.wait([&] { return book.ends.size() == 2; }));
  for (const auto& [rank, end] : book.ends) {
    EXPECT_EQ(end.outcome, protocol::Outcome::finished) << end.cause;
    EXPECT_EQ(end.step, 32u);
  }
  EXPECT_EQ(book.shares[32].size(), 2u);
}

TEST_F(Worker, KnowsWhichActorsItHas) {
  const auto process = start("w");
  const auto none = await(wait_for("w").call<&protocol::Worker::create>("nothing", "name"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::not_found);
}

TEST_F(Worker, ReachesAHeadAtAnAddressInBrackets) {
  const auto at = system_.listen({"::1", 0});
  if (!at) GTEST_SKIP() << "no IPv6 here: " << at.error().message();
  const auto process = start("w", {{std::string(environment::head), at->text()}});
  EXPECT_TRUE(wait_for("w"));
}

TEST_F(Worker, LeavesWhenNobodyWaitsForIt) {
  book.refuse_workers = true;
  const auto process = start("late");
  EXPECT_EQ(exit_code(*process), 0);
}

TEST_F(Worker, LinksItselfAnewWhenItsLinkBreaksAndLeavesWhenItIsNotWantedThen) {
  const auto process = start("w");
  const auto actor = wait_for("w");
  int before = 0;  // one, or more if it has repeated itself
  {
    const std::lock_guard lock(book.mutex);
    before = book.announcements;
  }
  system_.disconnect({actor.address().process}, "test");
  ASSERT_TRUE(book.wait([&] { return book.announcements > before; }));
  const auto none = await(actor.call<&protocol::Worker::create>("nothing", "name"));
  EXPECT_EQ(none.error().code, Errc::not_found) << "it is the same process, reached over the new link";
  {
    const std::lock_guard lock(book.mutex);
    book.refuse_workers = true;
  }
  system_.disconnect({actor.address().process}, "test");
  EXPECT_EQ(exit_code(*process), 0);
}

TEST_F(Worker, LeavesWhenThereIsNoHeadForTheTimeOfItsLease) {
  const auto process = start("w", {{std::string(environment::lease), "10000"}});
  wait_for("w");
  await(system_.stop());
  std::string output;
  for (;;) {
    const auto piece = await(process->read_output()).value();
    if (piece.empty()) break;
    output += piece;
  }
  EXPECT_EQ(exit_code(*process), 1);
  EXPECT_NE(output.find("no head for 10000 ms"), std::string::npos) << output;
}

/// Runs the program without a head, and gives what it printed with its exit code.
std::pair<std::string, std::optional<int>> run_alone(const std::string& command) {
  runtime::ProcessSpec spec;
  spec.program = WEIR_WORKER_PROGRAM;
  spec.arguments = {command};
  net::io_context io{1};
  const auto spawner = runtime::make_process_spawner();
  const auto process = spawner->spawn(io.get_executor(), spec).value();
  std::string output;
  for (;;) {
    auto piece = net::co_spawn(io, process->read_output(), net::use_future);
    // Not until there is no work left: that ends with the process, which waits while more than a pipe holds is unread.
    while (piece.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io.run_one();
    const auto text = piece.get().value();
    if (text.empty()) break;
    output += text;
  }
  auto ended = net::co_spawn(io, process->wait(), net::use_future);
  io.run();
  return {output, ended.get().value().exit_code};
}

TEST(WorkerProgram, SaysWhatItNeeds) {
  const auto [output, code] = run_alone("run");
  EXPECT_EQ(code, 2);
  EXPECT_NE(output.find("WEIR_WORKER_ID"), std::string::npos) << output;
}

TEST(WorkerProgram, PrintsTheCatalog) {
  const auto [output, code] = run_alone("catalog");
  EXPECT_EQ(code, 0);
  const auto catalog = nlohmann::json::parse(output);
  for (const char* list :
       {"models", "datasets", "compressors", "memories", "modes", "topologies", "optimizers", "lr_schedules"}) {
    ASSERT_FALSE(catalog.at(list).empty()) << list;
    for (const auto& entry : catalog.at(list)) {
      EXPECT_FALSE(entry.at("summary").get<std::string>().empty()) << list << entry;
      EXPECT_EQ(entry.at("params").at("type"), "object") << list << entry;
      EXPECT_EQ(entry.at("params").at("additionalProperties"), false) << list << entry;
    }
  }
  EXPECT_EQ(catalog.at("models").at(0).at("name"), "lenet");
  EXPECT_EQ(catalog.at("models").at(0).at("parameters"), 431'080);
  EXPECT_EQ(catalog.at("modes").at(0).at("topologies"),
            (nlohmann::json{"ring", "butterfly", "binary_blocks", "tree", "hierarchical", "two_hop", "multi_hop",
                            "parameter_server", "split_gather", "nccl", "auto"}));
  EXPECT_EQ(catalog.at("topologies").at(1).at("workers"), "power_of_two");
  EXPECT_EQ(catalog.at("topologies").at(1).at("gathers"), "all");
  EXPECT_EQ(catalog.at("topologies").at(6).at("workers"), "power_of_two");
  EXPECT_EQ(catalog.at("topologies").at(6).at("gathers"), "partners");
  EXPECT_EQ(catalog.at("topologies").at(7).at("gathers"), "owners");
  EXPECT_TRUE(catalog.at("topologies").at(7).at("params").at("properties").contains("servers"));
  EXPECT_EQ(catalog.at("topologies").at(8).at("gathers"), "regions");
  for (const auto& compressor : catalog.at("compressors")) {
    const auto& traits = compressor.at("traits");
    const bool gathers = traits.at("passes").back() == "gather";
    const bool fits = !gathers || traits.at("sparse").get<bool>();
    EXPECT_EQ(compressor.contains("regions_misfit"), !fits) << compressor.at("name");
  }
  const auto& modes = catalog.at("modes");
  const auto gossip = std::ranges::find_if(modes, [](const auto& mode) { return mode.at("name") == "gossip"; });
  ASSERT_NE(gossip, modes.end());
  EXPECT_EQ(gossip->at("topologies"), nlohmann::json{"ring"});
  EXPECT_EQ(gossip->at("exchanges"), "models");
  EXPECT_EQ(gossip->at("params").at("properties").at("graph").at("enum"),
            (nlohmann::json{"ring", "torus", "random_regular", "complete"}));
  for (const auto& topology : catalog.at("topologies")) {
    EXPECT_EQ(topology.at("automatic"), topology.at("name") == "auto") << topology;
    EXPECT_EQ(topology.at("on_devices"), topology.at("name") == "nccl") << topology;
  }
}

TEST(WorkerProgram, AJobMayLeaveTheTopologyToTheWorkersWithAnyCompressor) {
  const auto catalog = nlohmann::json::parse(run_alone("catalog").first);
  ASSERT_GT(catalog.at("compressors").size(), 10u);
  for (const auto& compressor : catalog.at("compressors")) {
    for (const int workers : {1, 3, 4}) {
      nlohmann::json spec = {{"model", {{"name", "lenet"}}},
                             {"dataset", {{"name", "fashion-mnist"}}},
                             {"compression", {{"name", compressor.at("name")}}},
                             {"exchange", {{"topology", "auto"}}},
                             {"resources", {{"workers", workers}}}};
      const auto problems = protocol::normalize_job_spec(spec, catalog);
      for (const auto& problem : problems) ADD_FAILURE() << compressor.at("name") << ": " << problem.message;
    }
  }
}

}  // namespace
}  // namespace weir
