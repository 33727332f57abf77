#include "cluster/node_agent.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errc.hpp"
#include "cluster/run_on.hpp"
#include "protocol/worker_environment.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
namespace environment = protocol::worker_environment;

constexpr auto backoff_first = 200ms;
constexpr auto backoff_last = 5s;
constexpr auto call_limit = 5s;
constexpr auto end_limit = 5s;            // for killed workers to be gone
constexpr auto lease_check = 1s;          // while there is no lease
constexpr auto gpu_interval = 1s;         // between two readings of the GPUs
constexpr auto gpu_sample_age_max = 5s;   // then a reading says nothing of now
constexpr auto forward_interval = 100ms;  // output is gathered for this long
constexpr auto name_taken_limit = 10s;    // the head may not have noticed yet that an earlier process is gone
constexpr std::size_t unsent_max = 1 << 20;
constexpr std::size_t chunk_max = 64 << 10;  // of the output of one worker, in one message
constexpr std::size_t batch_max = 4 << 20;   // of that of all
constexpr std::size_t last_output_max = 4 << 10;

/// What a head answers that has no check_version() yet. By the text: an actor that stops is not found, either.
bool is_of_older_head(const Error& error) {
  return error.code == Errc::not_found && error.context.find("no such method") != std::string::npos;
}

bool fenced(const Error& error) { return error.code == Errc::conflict || error.code == Errc::not_found; }

}  // namespace

AgentActor::AgentActor(NodeOptions options, runtime::ProcessSpawner& spawner, std::function<void(Error)> hopeless)
    : options_(std::move(options)), spawner_(spawner), hopeless_(std::move(hopeless)) {
  for (const auto& gpu : options_.gpus.offered) gpus_.push_back({gpu.uuid, false, {}});
}

void AgentActor::on_start() {
  tasks().spawn("stay joined", stay_joined());
  tasks().spawn("guard lease", guard_lease());
  tasks().spawn("forward output", forward_output());
  if (options_.gpus.probe) tasks().spawn("watch GPUs", watch_gpus());
}

net::awaitable<void> AgentActor::on_stop() {
  for (auto& [id, worker] : workers_) worker->process->signal(SIGKILL);
  workers_.clear();  // each Process is waited for by its destructor
  co_return;
}

// --- in the cluster ---

net::awaitable<void> AgentActor::stay_joined() {
  auto backoff = std::chrono::milliseconds(backoff_first);
  std::optional<runtime::Clock::time_point> taken_since;  // when the name was refused first, since any other answer
  for (;;) {
    auto joined = co_await join();
    const bool is_taken = !joined && joined.error().code == Errc::conflict;
    if (!is_taken) taken_since.reset();
    if (is_taken && !taken_since) taken_since = clock().now();
    if (joined) {
      backoff = backoff_first;
      ever_joined_ = true;
      news_.notify();
      const auto head = lease_->head;
      const Error why = co_await beat();
      system().disconnect(head, "leaving: " + why.message());
      if (lease_ && fenced(why)) co_await leave(why);
      if (lease_) spdlog::warn("node {}: without the head: {}", options_.name, why.message());
    } else {
      const auto& code = joined.error().code;
      const bool stays_taken = taken_since && clock().now() - *taken_since >= name_taken_limit;
      const bool refused = code == Errc::unauthenticated || code == Errc::unsupported || code == Errc::invalid_argument;
      if (!ever_joined_ && (refused || stays_taken)) {
        hopeless_(joined.error());
        co_return;
      }
      spdlog::warn("node {}: {}; trying again", options_.name, joined.error().message());
    }
    // With a lease, workers depend on the link: it is replaced without a growing pause.
    const auto pause = lease_ ? backoff_first : backoff;
    if (!co_await clock().sleep_for(pause)) co_return;
    backoff = std::min<std::chrono::milliseconds>(backoff * 2, backoff_last);
  }
}

/// Opens a link to the head and joins the cluster: for the first time, anew, or to continue with the present lease.
net::awaitable<Result<void>> AgentActor::join() {
  auto at = runtime::Endpoint::parse(options_.head);
  if (!at) co_return at.error();
  auto peer = co_await system().connect(*at);
  if (!peer) co_return peer.error().within("head " + options_.head);
  auto lease = co_await ask_to_join(*peer);
  if (!lease) {
    system().disconnect(*peer, "the head did not let this node in");
    co_return lease.error();
  }
  spdlog::info("node {}: joined {}", options_.name, options_.head);
  lease_ = std::move(*lease);
  co_return Result<void>();
}

net::awaitable<Result<AgentActor::Lease>> AgentActor::ask_to_join(runtime::PeerId head) {
  if (!lease_) co_await end_workers(SIGKILL, end_limit);  // the head has given them up
  Lease lease;
  lease.head = head;
  lease.membership = system().find<protocol::Membership>(head, "membership");
  const auto membership = lease.membership.within(call_limit);
  auto same = co_await membership.call<&protocol::Membership::check_version>(options_.name, options_.version);
  if (!same && is_of_older_head(same.error())) {
    co_return Error{Errc::unsupported, "the head is of an older weir than this node, which is of " + options_.version +
                                           "; install the same version on both"};
  }
  if (!same) co_return same.error();
  lease.host = options_.host.empty() ? host_towards(head) : options_.host;
  lease.answered = clock().now();
  protocol::NodeInfo info;
  info.name = options_.name;
  info.host = lease.host;
  info.incarnation = options_.incarnation;
  info.resources = options_.resources;
  info.gpus = options_.gpus.offered;
  info.labels = options_.labels;
  info.version = options_.version;
  info.pid = static_cast<std::uint32_t>(::getpid());
  info.lease_id = lease_ ? lease_->welcome.lease_id : 0;
  if (lease_) {
    for (const auto& [id, worker] : workers_) info.workers.push_back(id);
  }
  const std::uint64_t asked_for = info.lease_id;
  const auto announced = info.workers;
  auto welcome = co_await membership.call<&protocol::Membership::join>(std::move(info), self<protocol::NodeAgent>());
  if (!welcome) co_return welcome.error();
  lease.welcome = std::move(*welcome);
  if (lease.welcome.lease_id != asked_for) {
    const Error given_up{Errc::conflict, "the head has given up what ran here"};
    if (lease_) co_await leave(given_up);
    co_return lease;
  }
  if (!lease_) co_return Error{Errc::conflict, "the lease was over before the head answered"};
  const auto& kept = lease.welcome.workers;
  for (const auto& id : announced) {  // not those started since: the head could not know of them
    const auto worker = workers_.find(id);
    const bool is_kept = std::ranges::find(kept, id) != kept.end();
    if (worker != workers_.end() && !is_kept) worker->second->process->signal(SIGKILL);
  }
  co_return lease;
}

/// Determined anew at each join: the head's name may have had no address before, and either side may have moved.
std::string AgentActor::host_towards(runtime::PeerId head) const {
  const auto peers = system().peers();
  const auto found = std::find_if(peers.begin(), peers.end(), [head](const auto& peer) { return peer.id == head; });
  return host::address_towards(found == peers.end() ? "" : found->remote);
}

/// Sends heartbeats until the link or the lease has ended. If one fails otherwise (the head is late, its mailbox is
/// full), the next one follows: the lease ends if that goes on for too long.
net::awaitable<Error> AgentActor::beat() {
  const auto& welcome = lease_->welcome;
  const std::chrono::milliseconds interval(std::clamp(welcome.heartbeat_milliseconds, 10u, 60'000u));
  const auto membership = lease_->membership.within(interval * std::clamp(welcome.missed_heartbeats_max, 1u, 100u));
  const std::uint64_t lease_id = welcome.lease_id;
  for (bool good = true; lease_;) {
    const auto load = load_.sample();
    protocol::NodeHeartbeat beat;
    beat.node_id = lease_->welcome.node_id;
    beat.lease_id = lease_id;
    beat.cpu_load = load.cpu;
    beat.memory_used_bytes = load.memory_used_bytes;
    beat.memory_total_bytes = load.memory_total_bytes;
    beat.network_sent_bytes = load.network_sent_bytes;
    beat.network_received_bytes = load.network_received_bytes;
    beat.gpus = gpus_now();
    const auto sent = clock().now();
    auto heard = co_await membership.call<&protocol::Membership::heartbeat>(std::move(beat));
    if (heard && lease_) lease_->answered = sent;
    if (!heard) {
      const auto& code = heard.error().code;
      if (fenced(heard.error()) || code == Errc::peer_lost || code == Errc::cancelled) co_return heard.error();
      if (good) spdlog::warn("node {}: a heartbeat failed: {}", options_.name, heard.error().message());
    }
    good = heard.has_value();
    if (!co_await clock().sleep_for(interval)) co_return Error{Errc::cancelled, "the node stops"};
  }
  co_return Error{Errc::deadline_exceeded, "the lease is over"};
}

net::awaitable<void> AgentActor::leave(Error why) {
  spdlog::warn("node {}: leaves the cluster, ending the workers: {}", options_.name, why.message());
  lease_.reset();
  for (auto& [id, worker] : workers_) worker->drained.notify();
  co_await end_workers(SIGKILL, end_limit);
}

net::awaitable<void> AgentActor::guard_lease() {
  for (;;) {
    // In a statement of its own: in the operand of co_await, g++ 12 evaluates both branches.
    const auto until = lease_ ? lease_->end() : clock().now() + lease_check;
    if (!co_await clock().sleep_until(until)) co_return;
    if (!lease_ || clock().now() < lease_->end()) continue;
    const Error over{Errc::deadline_exceeded,
                     "the head has not answered for " + std::to_string(lease_->welcome.lease_milliseconds) + " ms"};
    co_await leave(over);
  }
}

// --- GPUs ---

net::awaitable<void> AgentActor::watch_gpus() {
  for (;;) {
    const auto read = co_await read_gpus();
    const std::string trouble = read ? std::string() : read.error().context;
    if (!trouble.empty() && trouble != gpu_trouble_) spdlog::warn("node {}: {}", options_.name, trouble);
    gpu_trouble_ = trouble;
    if (!co_await clock().sleep_for(gpu_interval)) co_return;
  }
}

net::awaitable<Result<void>> AgentActor::read_gpus() {
  const auto begin = clock().now();
  auto read = [probe = options_.gpus.probe] { return probe->read(); };
  auto readings = co_await run_on(options_.blocking, std::move(read));
  if (!readings) co_return readings.error();
  gpus_read_ = begin;
  for (auto& state : gpus_) {
    const auto found = std::ranges::find(*readings, state.uuid, [](const auto& one) { return one.gpu.uuid; });
    state.lost = found == readings->end();
    state.sample = state.lost ? protocol::GpuSample() : std::move(found->sample);
  }
  co_return Result<void>();
}

std::vector<protocol::GpuState> AgentActor::gpus_now() const {
  auto states = gpus_;
  if (clock().now() - gpus_read_ <= gpu_sample_age_max) return states;
  for (auto& state : states) state.sample = {};
  return states;
}

net::awaitable<Result<void>> AgentActor::find_gpus(std::vector<protocol::GpuShare> booked) {
  const std::string node = " of node " + options_.name;
  if (options_.gpus.probe) {
    if (const auto read = co_await read_gpus(); !read) {
      for (auto& state : gpus_) state.lost = true;  // until they can be read again
      co_return Error{Errc::not_found, booked.front().uuid + node + " cannot be found: " + read.error().context};
    }
  }
  for (const auto& share : booked) {
    const auto known = std::ranges::find(options_.gpus.offered, share.uuid, &protocol::Gpu::uuid);
    if (known == options_.gpus.offered.end()) co_return Error{Errc::not_found, share.uuid + " is no GPU" + node};
    const auto state = std::ranges::find(gpus_, share.uuid, &protocol::GpuState::uuid);
    if (state->lost) co_return Error{Errc::not_found, describe(*known) + node + " is not there any more"};
  }
  co_return Result<void>();
}

// --- workers ---

runtime::ProcessSpec AgentActor::spec_of(const protocol::WorkerLaunch& launch) const {
  runtime::ProcessSpec spec;
  spec.program = options_.worker_program;
  spec.arguments = {"run"};
  spec.environment = runtime::current_environment();
  for (const char* secret : {"WEIR_TOKEN", "WEIR_NODE_SECRET"}) spec.environment.erase(secret);
  for (const auto& [name, value] : launch.environment) spec.environment[name] = value;
  const auto cpu = launch.resources.find("cpu");
  const double threads = cpu == launch.resources.end() ? 1 : std::floor(cpu->second);
  spec.environment[std::string(environment::worker_id)] = launch.worker_id;
  spec.environment[std::string(environment::job_id)] = launch.job_id;
  spec.environment[std::string(environment::head)] = options_.head;
  spec.environment[std::string(environment::listen_host)] = lease_->host;
  spec.environment[std::string(environment::lease)] = std::to_string(lease_->welcome.lease_milliseconds);
  spec.environment[std::string(environment::threads)] =
      std::to_string(static_cast<unsigned>(std::clamp(threads, 1.0, 1024.0)));
  spec.environment.erase(std::string(environment::modules));  // only the operator of this node names it
  if (!options_.modules.empty()) spec.environment[std::string(environment::modules)] = options_.modules;
  // Set before the process begins, for CUDA reads it once, and whatever the node knows of GPUs: without NVML, workers
  // would take those that its own variable names, all of them the first.
  std::string visible;
  for (const auto& share : launch.gpus) visible += (visible.empty() ? "" : ",") + share.uuid;
  spec.environment[visible_devices_variable] = visible;
  spec.input = launch.secret + "\n";
  return spec;
}

/// What there is to answer without starting a process; nothing if one must be started.
std::optional<Result<protocol::WorkerStarted>> AgentActor::already_started(const protocol::WorkerLaunch& launch) const {
  if (!lease_ || launch.lease_id != lease_->welcome.lease_id) {
    return Error{Errc::conflict, "node " + options_.name + " holds another lease by now"};
  }
  const auto known = workers_.find(launch.worker_id);
  if (known == workers_.end()) return std::nullopt;
  return protocol::WorkerStarted{known->second->pid};
}

net::awaitable<Result<protocol::WorkerStarted>> AgentActor::start_worker(protocol::WorkerLaunch launch) {
  if (auto known = already_started(launch)) co_return std::move(*known);
  if (!launch.gpus.empty()) {
    if (auto there = co_await find_gpus(launch.gpus); !there) co_return there.error();
    if (auto known = already_started(launch)) co_return std::move(*known);  // the order was repeated meanwhile
  }
  auto process = spawner_.spawn(executor(), spec_of(launch));
  if (!process) co_return process.error();
  auto worker = std::make_shared<Worker>();
  worker->pid = (*process)->pid();
  worker->launch = std::move(launch);
  worker->launch.secret.clear();  // the worker has it
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
    // A worker that prints faster than the head accepts it blocks in its own write, as on a slow terminal.
    while (lease_ && worker->unsent.size() + text->size() > unsent_max) {
      co_await worker->drained.wait_until(clock(), clock().now() + 1s);
    }
    if (!lease_ && worker->unsent.size() > unsent_max) continue;  // dropped: without a lease nobody accepts it
    worker->unsent += *text;
    news_.notify();
  }
  worker->output_ended = true;
  worker->drained.notify();
}

net::awaitable<void> AgentActor::supervise(std::shared_ptr<Worker> worker) {
  auto exit = co_await worker->process->wait();
  if (!exit) co_return;
  // The head is told of the end after it has received the last output.
  const auto deadline = clock().now() + call_limit;
  while (lease_ && clock().now() < deadline && (!worker->output_ended || !worker->unsent.empty())) {
    co_await worker->drained.wait_until(clock(), deadline);
  }
  co_await tell_exit(worker, *exit);
  workers_.erase(worker->launch.worker_id);
  ended_.notify();
}

net::awaitable<void> AgentActor::tell_exit(std::shared_ptr<Worker> worker, runtime::ProcessExit exit) {
  while (lease_ && lease_->welcome.lease_id == worker->launch.lease_id) {  // else the head has given it up already
    protocol::WorkerExit news;
    news.node_id = lease_->welcome.node_id;
    news.worker_id = worker->launch.worker_id;
    news.job_id = worker->launch.job_id;
    news.rank = worker->launch.rank;
    news.pid = worker->pid;
    news.exit_code = exit.exit_code;
    news.signal = exit.signal;
    news.last_output = worker->last_output;
    const auto membership = lease_->membership.within(call_limit);
    auto told = co_await membership.call<&protocol::Membership::worker_exited>(std::move(news));
    if (told || told.error().code == Errc::cancelled) co_return;
    if (!co_await clock().sleep_for(backoff_first)) co_return;
  }
}

net::awaitable<void> AgentActor::forward_output() {
  for (bool good = true;;) {
    co_await news_.wait_until(clock(), clock().now() + 1s);
    if (!lease_) continue;
    protocol::OutputBatch batch;
    batch.node_id = lease_->welcome.node_id;
    std::vector<std::pair<std::shared_ptr<Worker>, std::size_t>> sent;
    for (const auto& [id, worker] : workers_) {
      if (worker->unsent.empty()) continue;
      std::string text = worker->unsent.substr(0, std::min(chunk_max, batch_max / workers_.size()));
      sent.emplace_back(worker, text.size());
      batch.chunks.push_back({id, worker->launch.job_id, worker->launch.rank, worker->acknowledged, std::move(text)});
    }
    if (batch.chunks.empty()) continue;
    const auto membership = lease_->membership.within(call_limit);
    auto taken = co_await membership.call<&protocol::Membership::output>(std::move(batch));
    if (!taken) {
      if (taken.error().code == Errc::cancelled) co_return;
      if (good) spdlog::warn("node {}: output waits: {}", options_.name, taken.error().message());
    }
    good = taken.has_value();
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
    const auto pause = taken ? forward_interval : backoff_first;
    if (!co_await clock().sleep_for(pause)) co_return;
  }
}

net::awaitable<void> AgentActor::end_workers(int signal, std::chrono::milliseconds patience) {
  for (auto& [id, worker] : workers_) worker->process->signal(signal);
  const auto deadline = clock().now() + patience;
  while (!workers_.empty() && clock().now() < deadline) co_await ended_.wait_until(clock(), deadline);
}

}  // namespace weir::cluster
