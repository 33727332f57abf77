#include "tests/cluster/fake_cluster.hpp"

#include <algorithm>
#include <boost/asio/strand.hpp>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "cluster/sqlite_store.hpp"
#include "protocol/accounts.hpp"
#include "protocol/acknowledged.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/head_link.hpp"
#include "protocol/safetensors.hpp"
#include "protocol/worker_environment.hpp"
#include "tests/protocol/test_catalog.hpp"
#include "training/shapes.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using runtime::testing::FakeChild;

constexpr const char* control = "head:6380";
constexpr const char* secret = "secret";

/// Trains nothing, but says all that a trainer says.
class FakeTrainer final : public runtime::Actor<protocol::Training> {
 public:
  FakeTrainer(TrainerScript& script, runtime::ActorRef<protocol::Coordinator> jobs, FakeChild child)
      : script_(script), jobs_(std::move(jobs)), child_(std::move(child)) {}

  net::awaitable<Result<protocol::Prepared>> prepare(protocol::Assignment assignment) override {
    script_.assignments.push_back(assignment);
    assignment_ = std::move(assignment);
    auto resumed = co_await protocol::until_resumed(jobs_, clock(), assignment_);
    if (!resumed) co_return resumed.error();
    script_.resumed.push_back({assignment_.rank, std::move(*resumed)});
    co_await clock().sleep_for(script_.prepare_time);
    if (script_.hang_in_prepare) co_await clock().sleep_for(1h);
    if (script_.prepare_fails) co_return *script_.prepare_fails;
    child_.print("rank " + std::to_string(assignment_.rank) + " is ready\n");
    co_return protocol::Prepared{
        {assignment_.rank, assignment_.listen_host, 1}, script_.steps, 100, script_.step_resumed};
  }
  net::awaitable<Result<void>> start(std::vector<protocol::RankEndpoint> peers) override {
    if (peers.size() != assignment_.members) co_return Error{Errc::invalid_argument, "a peer is missing"};
    const auto failure = script_.start_fails.find(assignment_.rank);
    if (failure != script_.start_fails.end()) co_return failure->second;
    tasks().spawn("train", train());
    co_return Result<void>();
  }
  net::awaitable<Result<void>> stop() override {
    stop_ = !script_.ignore_stop;
    co_return Result<void>();
  }
  net::awaitable<Result<void>> abort(std::string cause) override {
    abort_ = cause;
    co_return Result<void>();
  }

 private:
  net::awaitable<void> train() {
    std::uint64_t step = script_.step_resumed;
    protocol::Outcome outcome = protocol::Outcome::finished;
    while (step < script_.steps && child_.alive() && abort_.empty()) {
      if (!co_await clock().sleep_for(script_.step_time)) co_return;
      ++step;
      const bool is_silent = script_.silent_servers && assignment_.role != protocol::Role::worker;
      if (!is_silent) co_await report(step);
      std::optional<protocol::TrainingEnd> failure;
      if (script_.fails) failure = script_.fails(assignment_.rank);
      if (failure) {
        failure->job_id = assignment_.job_id;
        failure->rank = assignment_.rank;
        failure->attempt = assignment_.attempt;
        failure->outcome = protocol::Outcome::failed;
        failure->step = step;
        co_await clock().sleep_for(assignment_.rank * script_.failure_interval);
        co_await protocol::until_acknowledged<&protocol::Coordinator::ended>(jobs_, clock(), *failure);
        co_return;
      }
      if (script_.checkpoint_every != 0 && step % script_.checkpoint_every == 0) co_await save(step);
      if (stop_ && step % script_.period == 0) {
        outcome = protocol::Outcome::stopped;
        break;
      }
    }
    if (assignment_.rank == 0) co_await clock().sleep_for(script_.evaluation);
    if (!abort_.empty()) outcome = protocol::Outcome::failed;
    if (outcome == protocol::Outcome::stopped) co_await save(step);
    protocol::TrainingEnd end{
        assignment_.job_id, assignment_.rank, assignment_.attempt, outcome, step, {}, false, abort_};
    co_await protocol::until_acknowledged<&protocol::Coordinator::ended>(jobs_, clock(), std::move(end));
  }

  net::awaitable<void> report(std::uint64_t step) {
    protocol::Report report{assignment_.job_id, assignment_.rank, assignment_.attempt, step, step, {}, {}};
    const double wall = 0.1 * static_cast<double>(step);
    report.points.push_back({"loss", step, wall, step * 100, 1.0 / static_cast<double>(step + assignment_.rank)});
    report.points.push_back({"bytes_sent", step, wall, step * 100, static_cast<double>(step * 100)});
    report.points.push_back({"bytes_dense", step, wall, step * 100, static_cast<double>(step * 20'000)});
    if (script_.traffic) report.traffic = script_.traffic(assignment_.rank, step);
    if (assignment_.rank == 0) report.points.push_back({"accuracy", step, wall, step * 100, 0.5});
    const auto told = co_await protocol::until_acknowledged<&protocol::Coordinator::report>(jobs_, clock(), report);
    if (told) script_.acknowledged = std::max(script_.acknowledged, step);
    if (!told) script_.refusal = told.error();
    if (script_.repeat_reports) co_await jobs_.call<&protocol::Coordinator::report>(report);
  }

  net::awaitable<void> save(std::uint64_t step) {
    protocol::CheckpointHeader header{step, assignment_.world, assignment_.rank,
                                      assignment_.members - assignment_.world};
    protocol::CheckpointShare share{assignment_.job_id, assignment_.rank, assignment_.attempt, step,
                                    fake_share(header)};
    co_await protocol::until_kept(jobs_, clock(), std::move(share));
  }

  Segment fake_share(const protocol::CheckpointHeader& header) const {
    const std::vector<float> values(script_.share_values, 1);
    const std::string name = header.rank == 0u ? "model.weight" : protocol::rank_prefix(*header.rank) + "memory";
    const std::vector<protocol::StoredTensor> tensors{
        {name, protocol::Dtype::f32, {script_.share_values}, std::as_bytes(std::span(values))}};
    return Segment::own(protocol::write_safetensors(protocol::to_metadata(header), tensors).value());
  }

  TrainerScript& script_;
  runtime::ActorRef<protocol::Coordinator> jobs_;
  FakeChild child_;
  protocol::Assignment assignment_;
  bool stop_ = false;
  std::string abort_;
};

class FakeWorkerActor final : public runtime::Actor<protocol::Worker> {
 public:
  FakeWorkerActor(TrainerScript& script, FakeChild child) : script_(script), child_(std::move(child)) {}

  void on_start() override { tasks().spawn("boot", boot()); }

  net::awaitable<Result<std::uint64_t>> create(std::string type, std::string name) override {
    const bool known = type == "trainer" || type == "parameter_server" || type == "state_server";
    if (!known || std::ranges::count(script_.missing_types, type) > 0) {
      co_return Error{Errc::not_found, "this worker has no actor type '" + type + "'"};
    }
    auto trainer = system().spawn<FakeTrainer>(name, script_, jobs_, child_);
    if (!trainer) co_return trainer.error();
    co_return trainer->address().actor;
  }

 private:
  net::awaitable<void> boot() {
    if (script_.hang_in_boot) co_return;
    namespace environment = protocol::worker_environment;
    protocol::HeadLinkOptions options;
    options.worker_id = child_.spec().environment.at(std::string(environment::worker_id));
    options.head = runtime::Endpoint::parse(control).value();
    options.lease =
        std::chrono::milliseconds(std::stoul(child_.spec().environment.at(std::string(environment::lease))));
    std::function<Result<runtime::ActorRef<protocol::Worker>>(runtime::ActorRef<protocol::Coordinator>)> make_worker =
        [this](runtime::ActorRef<protocol::Coordinator> jobs) {
          jobs_ = std::move(jobs);
          return self<protocol::Worker>();
        };
    const Error why = co_await protocol::hold_head_link(system(), std::move(options), std::move(make_worker));
    child_.exit(why.code == Errc::not_found || why.code == Errc::conflict ? 0 : 1);
  }

  TrainerScript& script_;
  FakeChild child_;
  runtime::ActorRef<protocol::Coordinator> jobs_;
};

/// The first line of what the process was given.
std::string secret_of(const FakeChild& child) {
  const auto& input = child.spec().input;
  return input.substr(0, input.find('\n'));
}

/// One pretended worker process: its own actor system in the same simulation.
class FakeWorker {
 public:
  FakeWorker(runtime::testing::Simulation& simulation, TrainerScript& script, const FakeChild& child)
      : system_({.name = "worker",
                 .executor = simulation.executor(),
                 .clock = simulation.clock(),
                 .transport = simulation.transport(),
                 .secret = secret_of(child),
                 .account = protocol::accounts::job(
                     child.spec().environment.at(std::string(protocol::worker_environment::job_id)))}) {
    ensure(system_.spawn<FakeWorkerActor>("worker", script, child).has_value(), "a worker actor can be made");
  }

  net::awaitable<void> stop() { return system_.stop(); }

 private:
  runtime::ActorSystem system_;
};

/// However the child ends, its actors and links end with it.
net::awaitable<void> live(std::unique_ptr<FakeWorker> worker, runtime::Event ended) {
  co_await ended.wait();
  co_await worker->stop();
}

}  // namespace

WorkerSpawner::WorkerSpawner(runtime::testing::Simulation& simulation, TrainerScript& script)
    : simulation_(simulation), script_(script) {}

WorkerSpawner::~WorkerSpawner() {
  for (std::size_t child = 0; child < children().size(); ++child) kill(child);
  // Their actors end a while after them.
  ensure(simulation_.run_until([this] { return living_ == 0; }), "pretended workers come to an end");
}

Result<std::unique_ptr<runtime::Process>> WorkerSpawner::spawn(net::any_io_executor executor,
                                                               runtime::ProcessSpec spec) {
  auto process = fake_.spawn(std::move(executor), std::move(spec));
  if (!process) return process;
  const auto& child = fake_.children().back();
  auto worker = std::make_unique<FakeWorker>(simulation_, script_, child);
  ++living_;
  net::co_spawn(simulation_.executor(), live(std::move(worker), child.ended()),
                [this](const std::exception_ptr& thrown) {
                  ensure(!thrown, "a pretended worker does not throw");
                  --living_;
                });
  return process;
}

std::size_t WorkerSpawner::alive() const {
  std::size_t count = 0;
  for (const auto& child : children()) count += child.alive() ? 1 : 0;
  return count;
}

void WorkerSpawner::kill(std::size_t child, int signal) {
  children().at(child).die(signal);
  simulation_.settle();
}

FakeCluster::~FakeCluster() {
  head_process->resume();
  store_process->resume();
  files_process->resume();
  for (auto& [name, process] : node_processes) process->resume();
  for (auto& [name, spawner] : spawners) {
    for (std::size_t child = 0; child < spawner->children().size(); ++child) spawner->kill(child);
  }
  for (auto& [name, node] : nodes) simulation.run(node->stop());
  if (head) simulation.run(head->stop());
}

void FakeCluster::start_head(std::function<bool(const std::vector<Change>&)> refused) {
  const auto file = dir.path() / "now" / "weir.db";
  std::filesystem::create_directories(file.parent_path());
  store = std::make_shared<CommitLog>(open_sqlite_store({.file = file}, net::make_strand(store_process->executor()),
                                                        net::make_strand(simulation.executor()))
                                          .value());
  store->refuse(std::move(refused));
  HeadOptions options;
  options.listen = control;
  options.data_dir = dir.path() / "now";
  options.node_secret = secret;
  options.catalog = protocol::test_catalog();
  options.shape_of = &training::training_shape;
  options.version = "test";
  options.files = net::make_strand(files_process->executor());
  options.logs = net::make_strand(head_process->executor());
  options.id_seed = 1 + simulation.clock().now().time_since_epoch().count();
  auto started = simulation.run(
      Head::start(std::move(options), head_process->executor(), simulation.clock(), head_process->transport(), store));
  ensure(started.has_value(), "the head starts");
  head = std::move(*started);
}

void FakeCluster::kill_head() {
  // What a killed process leaves is the files as they are at that moment.
  std::filesystem::copy(dir.path() / "now", dir.path() / "then", std::filesystem::copy_options::recursive);
  stop_head();
  std::filesystem::remove_all(dir.path() / "now");
  std::filesystem::rename(dir.path() / "then", dir.path() / "now");
}

void FakeCluster::stop_head() {
  simulation.run(head->stop());
  head.reset();
}

void FakeCluster::add_node(const std::string& name, double cpu, std::uint64_t incarnation,
                           std::map<std::string, std::string> labels) {
  auto& spawner = spawners[name];
  if (!spawner) spawner = std::make_unique<WorkerSpawner>(simulation, script);
  NodeOptions options;
  options.head = control;
  options.secret = secret;
  options.name = name;
  options.host = name;
  options.resources = {{"cpu", cpu}, {"memory", 1e9}};
  options.labels = std::move(labels);
  options.version = "test";
  options.worker_program = "/weir-worker";
  options.incarnation = incarnation;
  auto& process = node_processes[name];
  if (!process) process = simulation.process();
  options.blocking = process->executor();
  if (const auto found = gpus.find(name); found != gpus.end()) {
    ensure(offer_gpus(options, std::shared_ptr<GpuProbe>(found->second), std::nullopt).has_value(), "it has GPUs");
  }
  auto node = std::make_unique<Node>(std::move(options), process->executor(), simulation.clock(), process->transport(),
                                     *spawner);
  auto result = std::make_shared<std::optional<Result<void>>>();
  node_results[name] = result;
  net::co_spawn(simulation.executor(), node->run(),
                [result](std::exception_ptr, Result<void> ended) { *result = std::move(ended); });
  nodes[name] = std::move(node);
}

void FakeCluster::remove_node(const std::string& name) {
  simulation.run(nodes.at(name)->stop());
  nodes.erase(name);
}

Submission FakeCluster::submit(json spec, const std::string& key) {
  return simulation.run(head->submit(std::move(spec), key)).value();
}

json FakeCluster::spec(std::uint32_t workers, const json& more) {
  json spec = {{"model", {{"name", "lenet"}}},
               {"dataset", {{"name", "fashion-mnist"}}},
               {"resources", {{"workers", workers}}},
               {"fault_tolerance", {{"max_restarts", 0}}}};
  spec.merge_patch(more);
  return spec;
}

std::string FakeCluster::submit_job(std::uint32_t workers, const json& more) {
  return submit(spec(workers, more)).job.value().id;
}

std::string FakeCluster::stopped_job(std::uint32_t workers) {
  script.steps = 100'000;
  const auto id = submit_job(workers);
  ensure(await_job(id, [](const JobRecord& job) { return job.step >= 4; }), "the job begins");
  ensure(simulation.run(head->stop_job(id)).has_value(), "the job can be stopped");
  await_end(id);
  return id;
}

JobRecord FakeCluster::job(const std::string& id) { return simulation.run(head->job(id)).value(); }

bool FakeCluster::await_job(const std::string& id, const std::function<bool(const JobRecord&)>& wanted,
                            std::chrono::milliseconds limit) {
  const auto begin = simulation.clock().now();
  while (!wanted(job(id))) {
    const auto waited = simulation.clock().now() - begin;
    if (waited >= limit) return false;
    simulation.pass(std::clamp<runtime::Clock::duration>(waited / 10, 20ms, 1s));
  }
  return true;
}

JobRecord FakeCluster::await_end(const std::string& id) {
  await_job(id, [](const JobRecord& job) { return terminal(job.state); });
  return job(id);
}

JobRecord FakeCluster::await_phase(const std::string& id, JobPhase phase) {
  await_job(id, [phase](const JobRecord& job) { return job.phase == phase; });
  return job(id);
}

NodeRecord FakeCluster::node(const std::string& name) { return simulation.run(head->node(name)).value(); }

bool FakeCluster::await_node(const std::string& name, NodeState state) {
  const auto deadline = simulation.clock().now() + 1min;
  for (;;) {
    const auto found = simulation.run(head->node(name));
    if (found && found->state == state) return true;
    if (simulation.clock().now() >= deadline) return false;
    simulation.pass(50ms);
  }
}

std::size_t FakeCluster::processes() const {
  std::size_t count = 0;
  for (const auto& [name, spawner] : spawners) count += spawner->alive();
  return count;
}

}  // namespace weir::cluster
