#include "cluster/node_agent.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errc.hpp"
#include "protocol/worker_environment.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
namespace environment = protocol::worker_environment;

constexpr auto backoff_first = 200ms;
constexpr auto backoff_last = 5s;
constexpr auto call_limit = 5s;
constexpr auto forward_interval = 100ms;  // output is gathered for this long
constexpr auto name_taken_limit = 10s;    // the head may not have noticed yet that an earlier process is gone
constexpr std::size_t unsent_max = 1 << 20;
constexpr std::size_t chunk_max = 64 << 10;
constexpr std::size_t last_output_max = 4 << 10;

bool fenced(const Error& error) { return error.code == Errc::conflict || error.code == Errc::not_found; }

}  // namespace

AgentActor::AgentActor(NodeOptions options, runtime::ProcessSpawner& spawner, std::function<void(Error)> hopeless)
    : options_(std::move(options)), spawner_(spawner), hopeless_(std::move(hopeless)) {}

void AgentActor::on_start() {
  left_at_ = clock().now();
  tasks().spawn("stay joined", stay_joined());
  tasks().spawn("guard lease", guard_lease());
  tasks().spawn("forward output", forward_output());
}

net::awaitable<void> AgentActor::on_stop() {
  for (auto& [id, worker] : workers_) worker->process->signal(SIGKILL);
  workers_.clear();  // each Process is waited for by its destructor
  co_return;
}

// --- in the cluster ---

net::awaitable<void> AgentActor::stay_joined() {
  auto backoff = std::chrono::milliseconds(backoff_first);
  const auto began = clock().now();
  for (;;) {
    auto joined = co_await join();
    if (joined) {
      spdlog::info("node {}: joined {}", options_.name, options_.head);
      backoff = backoff_first;
      ever_joined_ = true;
      joined_ = *joined;
      news_.notify();
      const Error why = co_await beat(*joined);
      leave(why);
      system().disconnect(joined->head, "leaving: " + why.message());
      if (fenced(why)) co_await end_workers(SIGKILL, 5s);
    } else {
      const auto& code = joined.error().code;
      const bool name_taken = code == Errc::conflict && clock().now() - began >= name_taken_limit;
      const bool refused = code == Errc::unauthenticated || code == Errc::unsupported || code == Errc::invalid_argument;
      if (!ever_joined_ && (refused || name_taken)) {
        hopeless_(joined.error());
        co_return;
      }
      spdlog::warn("node {}: {}; trying again", options_.name, joined.error().message());
    }
    if (!co_await clock().sleep_for(backoff)) co_return;
    backoff = std::min<std::chrono::milliseconds>(backoff * 2, backoff_last);
  }
}

net::awaitable<Result<AgentActor::Membership>> AgentActor::join() {
  auto at = runtime::Endpoint::parse(options_.head);
  if (!at) co_return at.error();
  auto peer = co_await system().connect(*at);
  if (!peer) co_return peer.error().within("head " + options_.head);
  co_await end_workers(SIGKILL,
                       5s);  // of an earlier stay: the head has given them up, they must not go on beside new ones
  Membership stay;
  stay.head = *peer;
  stay.membership = system().find<protocol::Membership>(*peer, "membership");
  stay.host = options_.host.empty() ? host_towards(*peer) : options_.host;
  protocol::NodeInfo info;
  info.name = options_.name;
  info.host = stay.host;
  info.incarnation = options_.incarnation;
  info.resources = options_.resources;
  info.labels = options_.labels;
  info.version = options_.version;
  info.pid = static_cast<std::uint32_t>(::getpid());
  const auto membership = stay.membership.within(call_limit);
  auto welcome = co_await membership.call<&protocol::Membership::join>(std::move(info), self<protocol::NodeAgent>());
  if (!welcome) {
    system().disconnect(*peer, "the head did not let this node in");
    co_return welcome.error();
  }
  stay.welcome = std::move(*welcome);
  co_return stay;
}

/// Asked anew at each join: the head's name may have had no address before, and either side may have moved.
std::string AgentActor::host_towards(runtime::PeerId head) const {
  const auto peers = system().peers();
  const auto found = std::find_if(peers.begin(), peers.end(), [head](const auto& peer) { return peer.id == head; });
  return host::address_towards(found == peers.end() ? "" : found->remote);
}

/// Sends heartbeats until one fails.
net::awaitable<Error> AgentActor::beat(Membership joined) {
  const std::chrono::milliseconds interval(std::clamp(joined.welcome.heartbeat_milliseconds, 10u, 60'000u));
  const auto limit = interval * std::clamp(joined.welcome.missed_heartbeats_max, 1u, 100u);
  const auto membership = joined.membership.within(limit);
  for (;;) {
    const auto load = load_.sample();
    protocol::NodeHeartbeat beat;
    beat.node_id = joined.welcome.node_id;
    beat.epoch = joined.welcome.epoch;
    beat.cpu_load = load.cpu;
    beat.memory_used_bytes = load.memory_used_bytes;
    beat.memory_total_bytes = load.memory_total_bytes;
    beat.network_sent_bytes = load.network_sent_bytes;
    beat.network_received_bytes = load.network_received_bytes;
    auto heard = co_await membership.call<&protocol::Membership::heartbeat>(std::move(beat));
    if (!heard) co_return heard.error();
    if (!co_await clock().sleep_for(interval)) co_return Error{Errc::cancelled, "the node stops"};
  }
}

void AgentActor::leave(const Error& why) {
  const auto level = why.code == Errc::cancelled ? spdlog::level::info : spdlog::level::warn;
  spdlog::log(level, "node {}: without the head: {}", options_.name, why.message());
  joined_.reset();
  left_at_ = clock().now();
  for (auto& [id, worker] : workers_) worker->drained.notify();
}

net::awaitable<void> AgentActor::guard_lease() {
  const auto pause = std::clamp<runtime::Clock::duration>(options_.lease / 10, 10ms, 1s);
  while (co_await clock().sleep_for(pause)) {
    if (joined_ || workers_.empty() || clock().now() - left_at_ < options_.lease) continue;
    spdlog::error("node {}: no head for {} ms, ending the workers", options_.name, options_.lease.count());
    co_await end_workers(SIGKILL, 5s);
  }
}

// --- workers ---

runtime::ProcessSpec AgentActor::spec_of(const protocol::WorkerLaunch& launch) const {
  runtime::ProcessSpec spec;
  spec.program = options_.worker_program;
  spec.arguments = {"run"};
  spec.environment = runtime::current_environment();
  spec.environment.erase("WEIR_TOKEN");
  for (const auto& [name, value] : launch.environment) spec.environment[name] = value;
  const auto cpu = launch.resources.find("cpu");
  const double threads = cpu == launch.resources.end() ? 1 : std::floor(cpu->second);
  spec.environment[std::string(environment::worker_id)] = launch.worker_id;
  spec.environment[std::string(environment::head)] = options_.head;
  spec.environment[std::string(environment::listen_host)] = joined_->host;
  spec.environment[std::string(environment::threads)] =
      std::to_string(static_cast<unsigned>(std::clamp(threads, 1.0, 1024.0)));
  spec.input = options_.secret + "\n";
  return spec;
}

net::awaitable<Result<protocol::WorkerStarted>> AgentActor::start_worker(protocol::WorkerLaunch launch) {
  if (!joined_ || launch.epoch != joined_->welcome.epoch) {
    co_return Error{Errc::conflict, "node " + options_.name + " has another epoch by now"};
  }
  if (workers_.contains(launch.worker_id)) {
    co_return Error{Errc::conflict, "worker " + launch.worker_id + " was started before"};
  }
  auto process = spawner_.spawn(executor(), spec_of(launch));
  if (!process) co_return process.error();
  auto worker = std::make_shared<Worker>();
  worker->pid = (*process)->pid();
  worker->launch = std::move(launch);
  worker->process = std::move(*process);
  workers_[worker->launch.worker_id] = worker;
  tasks().spawn("read output", read_output(worker));
  tasks().spawn("supervise", supervise(worker));
  co_return protocol::WorkerStarted{worker->pid};
}

net::awaitable<Result<void>> AgentActor::stop_worker(std::string worker_id, std::uint32_t grace_milliseconds) {
  const auto found = workers_.find(worker_id);
  if (found == workers_.end()) co_return Result<void>();
  found->second->process->signal(SIGTERM);
  tasks().spawn("kill after grace", kill_after(found->second, std::chrono::milliseconds(grace_milliseconds)));
  co_return Result<void>();
}

net::awaitable<void> AgentActor::kill_after(std::shared_ptr<Worker> worker, std::chrono::milliseconds grace) {
  co_await clock().sleep_for(grace);
  worker->process->signal(SIGKILL);  // nothing happens if it has ended
}

net::awaitable<void> AgentActor::read_output(std::shared_ptr<Worker> worker) {
  for (;;) {
    auto text = co_await worker->process->read_output();
    if (!text || text->empty()) break;
    worker->last_output += *text;
    if (worker->last_output.size() > last_output_max) {
      worker->last_output.erase(0, worker->last_output.size() - last_output_max);
    }
    // A worker that prints faster than the head takes it waits in its own write, as on a slow terminal.
    while (joined_ && worker->unsent.size() + text->size() > unsent_max) {
      co_await worker->drained.wait_until(clock(), clock().now() + 1s);
    }
    if (!joined_ && worker->unsent.size() > unsent_max) continue;  // nobody to give it to, and the lease runs out
    worker->unsent += *text;
    news_.notify();
  }
  worker->output_ended = true;
  worker->drained.notify();
}

net::awaitable<void> AgentActor::supervise(std::shared_ptr<Worker> worker) {
  auto exit = co_await worker->process->wait();
  if (!exit) co_return;
  // The head hears of the end after the last of the output.
  const auto deadline = clock().now() + call_limit;
  while (joined_ && clock().now() < deadline && (!worker->output_ended || !worker->unsent.empty())) {
    co_await worker->drained.wait_until(clock(), deadline);
  }
  co_await tell_exit(worker, *exit);
  workers_.erase(worker->launch.worker_id);
  ended_.notify();
}

net::awaitable<void> AgentActor::tell_exit(std::shared_ptr<Worker> worker, runtime::ProcessExit exit) {
  while (joined_ && joined_->welcome.epoch == worker->launch.epoch) {  // else the head has given it up already
    protocol::WorkerExit news;
    news.node_id = joined_->welcome.node_id;
    news.worker_id = worker->launch.worker_id;
    news.job_id = worker->launch.job_id;
    news.rank = worker->launch.rank;
    news.pid = worker->pid;
    news.exit_code = exit.exit_code;
    news.signal = exit.signal;
    news.last_output = worker->last_output;
    const auto membership = joined_->membership.within(call_limit);
    auto told = co_await membership.call<&protocol::Membership::worker_exited>(std::move(news));
    if (told || told.error().code == Errc::cancelled) co_return;
    if (!co_await clock().sleep_for(backoff_first)) co_return;
  }
}

net::awaitable<void> AgentActor::forward_output() {
  for (;;) {
    co_await news_.wait_until(clock(), clock().now() + 1s);
    if (!joined_) continue;
    protocol::OutputBatch batch;
    batch.node_id = joined_->welcome.node_id;
    std::vector<std::pair<std::shared_ptr<Worker>, std::size_t>> sent;
    for (const auto& [id, worker] : workers_) {
      if (worker->unsent.empty()) continue;
      std::string text = worker->unsent.substr(0, chunk_max);
      sent.emplace_back(worker, text.size());
      batch.chunks.push_back({id, worker->launch.job_id, worker->launch.rank, worker->acknowledged, std::move(text)});
    }
    if (batch.chunks.empty()) continue;
    const auto membership = joined_->membership.within(call_limit);
    auto taken = co_await membership.call<&protocol::Membership::output>(std::move(batch));
    if (!taken) {
      if (taken.error().code == Errc::cancelled) co_return;
      spdlog::warn("node {}: output waits: {}", options_.name, taken.error().message());
    }
    bool more = false;
    for (auto& [worker, size] : sent) {
      if (taken) {
        worker->unsent.erase(0, size);
        worker->acknowledged += size;
        worker->drained.notify();
      }
      more = more || !worker->unsent.empty();
    }
    if (more) news_.notify();
    if (!co_await clock().sleep_for(taken ? forward_interval : backoff_first)) co_return;
  }
}

net::awaitable<void> AgentActor::end_workers(int signal, std::chrono::milliseconds patience) {
  for (auto& [id, worker] : workers_) worker->process->signal(signal);
  const auto deadline = clock().now() + patience;
  while (!workers_.empty() && clock().now() < deadline) co_await ended_.wait_until(clock(), deadline);
}

}  // namespace weir::cluster
