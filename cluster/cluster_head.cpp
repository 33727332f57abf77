#include "cluster/cluster_head.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/strand.hpp>
#include <random>
#include <tuple>

#include "base/errc.hpp"
#include "cluster/head_actors.hpp"
#include "cluster/job_files.hpp"
#include "cluster/run_on.hpp"
#include "protocol/accounts.hpp"
#include "protocol/roles.hpp"
#include "runtime/event.hpp"
#include "runtime/on.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

/// Sets an event when it goes out of scope, however that happens.
class SetAtEnd {
 public:
  explicit SetAtEnd(runtime::Event event) : event_(std::move(event)) {}
  ~SetAtEnd() { event_.set(); }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  runtime::Event event_;
};

constexpr std::uint32_t page_max = 1000;
constexpr std::uint32_t points_max = 5000;
constexpr std::uint64_t log_bytes_max = 1 << 20;

Result<void> check_limit(std::uint32_t limit, std::uint32_t most) {
  if (limit >= 1 && limit <= most) return {};
  return Error{Errc::invalid_argument, "limit must be between 1 and " + std::to_string(most)};
}

std::uint32_t ranks_of(const JobRecord& job) { return protocol::members_of(protocol::read_groups(job.spec).value()); }

Error no_job(const std::string& id) { return {Errc::not_found, "there is no job " + id}; }
Error no_node(const std::string& id) { return {Errc::not_found, "there is no node " + id}; }

/// Chooses a page of the actors that are added to it, in any order. Keeps no more of them than two pages.
class ActorsFound {
 public:
  ActorsFound(std::string filter, std::size_t limit, std::string cursor)
      : filter_(std::move(filter)), limit_(limit), cursor_(std::move(cursor)) {}

  void add(ActorRecord actor) {
    const bool wanted = actor.name.find(filter_) != std::string::npos || actor.type.find(filter_) != std::string::npos;
    if (!wanted || (!cursor_.empty() && actor.name <= cursor_)) return;
    found_.push_back(std::move(actor));
    if (found_.size() > 2 * limit_ + 1) keep_first();
  }

  ActorPage page() {
    keep_first();
    ActorPage page;
    const bool more = found_.size() > limit_;
    if (more) found_.pop_back();
    if (more) page.next = found_.back().name;
    page.actors = std::move(found_);
    return page;
  }

 private:
  /// Those of the page, and one more if there are more.
  void keep_first() {
    std::ranges::sort(found_, {}, &ActorRecord::name);
    if (found_.size() > limit_ + 1) found_.resize(limit_ + 1);
  }

  const std::string filter_;
  const std::size_t limit_;
  const std::string cursor_;
  std::vector<ActorRecord> found_;
};

}  // namespace

net::awaitable<Result<std::unique_ptr<Head>>> Head::start(HeadOptions options, net::any_io_executor executor,
                                                          runtime::Clock& clock, runtime::Transport& transport,
                                                          std::shared_ptr<Store> store) {
  auto head =
      std::make_unique<ClusterHead>(std::move(options), std::move(executor), clock, transport, std::move(store));
  if (auto opened = co_await head->open(); !opened) {
    co_await head->stop();
    co_return opened.error();
  }
  co_return std::unique_ptr<Head>(std::move(head));
}

ClusterHead::ClusterHead(HeadOptions options, net::any_io_executor executor, runtime::Clock& clock,
                         runtime::Transport& transport, std::shared_ptr<Store> store)
    : services_{.options = std::move(options),
                .strand = net::make_strand(executor),
                .files = {},
                .logs = {},
                .clock = clock,
                .store = store,
                .stream = nullptr,
                .random = {},
                .fence = 0},
      nodes_(services_),
      jobs_(services_, nodes_),
      probe_(services_),
      tasks_(services_.strand, "head"),
      system_({.name = "head",
               .executor = executor,
               .clock = clock,
               .transport = transport,
               .secret = services_.options.node_secret,
               .account = std::string(protocol::accounts::node)}) {
  services_.system = &system_;
  const auto given_or_own = [](const net::any_io_executor& given, std::optional<net::thread_pool>& own) {
    return given ? given : net::any_io_executor(own.emplace(1).get_executor());
  };
  services_.files = given_or_own(services_.options.files, file_thread_);
  services_.logs = given_or_own(services_.options.logs, log_thread_);
  std::random_device entropy;
  std::seed_seq seed{entropy(), entropy(), entropy(), entropy()};
  services_.random.seed(seed);
  if (services_.options.id_seed) services_.random.seed(*services_.options.id_seed);
}

net::awaitable<Result<void>> ClusterHead::open() {
  if (auto recovered = co_await here(recover()); !recovered) co_return recovered.error();
  auto membership = system_.spawn<MembershipActor>("membership", *this);
  if (!membership) co_return membership.error();
  auto jobs = system_.spawn<CoordinatorActor>("coordinator", *this);
  if (!jobs) co_return jobs.error();
  system_.on_peer_lost(services_.strand, [this](const runtime::PeerInfo& peer, const Error& why) {
    peer_lost(peer.id.value, why.message());
  });
  auto at = runtime::Endpoint::parse(services_.options.listen);
  if (!at) co_return at.error();
  auto listening = system_.listen(*at);
  if (!listening) co_return listening.error().within("control port " + services_.options.listen);
  control_address_ = listening->text();
  co_return Result<void>();
}

net::awaitable<Result<void>> ClusterHead::recover() {
  Store& store = *services_.store;
  auto fence = co_await store.fence();
  if (!fence) co_return fence.error();
  services_.fence = *fence;
  auto page = co_await store.stream(0, 1, 1);
  if (!page) co_return page.error();
  services_.stream = std::make_shared<StreamHub>(services_.store, services_.clock, page->newest);
  store.observe([stream = services_.stream](const std::vector<StreamItem>& items) { stream->publish(items); });
  auto nodes = co_await store.nodes();
  if (!nodes) co_return nodes.error();
  if (auto taken = co_await store.commit(nodes_.recover(std::move(*nodes))); !taken) {
    if (taken.error().code != Errc::exhausted) co_return taken;
    spdlog::error("head: that nodes are lost cannot be recorded yet: {}", taken.error().message());
    // A node that joins again is recorded anew, and of the others the next start finds the same.
  }
  if (auto recovered = co_await jobs_.recover(); !recovered) co_return recovered;
  tasks_.spawn("watch nodes", watch_nodes());
  co_return Result<void>();
}

net::awaitable<void> ClusterHead::stop() { co_await here(stop_here()); }

net::awaitable<Result<void>> ClusterHead::stop_here() {
  if (std::exchange(stopping_, true)) co_return Result<void>();
  if (services_.stream) services_.stream->close();
  co_await jobs_.stop();
  co_await system_.stop();
  co_await tasks_.stop(services_.clock, 1s);
  services_.store->observe(nullptr);
  co_await services_.store->close();
  co_return Result<void>();
}

// --- nodes ---

net::awaitable<void> ClusterHead::watch_nodes() {
  const auto beat = std::chrono::milliseconds(NodeTable::heartbeat_milliseconds);
  auto due = services_.clock.now() + beat;
  while (co_await services_.clock.sleep_until(due)) {
    // A head that was itself stopped, or got no processor time, could not hear anybody for that long.
    const auto late = services_.clock.now() - due;
    due = services_.clock.now() + beat;
    for (const auto& [id, reason] : nodes_.silent(late)) {
      if (NodeTable::Node* node = nodes_.find(id)) lose(*node, reason);
    }
    const auto runs = jobs_.running();  // a copy: a run may end meanwhile
    for (const auto& [id, run] : runs) run->watch_links(late);
  }
}

void ClusterHead::peer_lost(std::uint64_t process, const std::string& why) {
  if (stopping_) return;
  if (NodeTable::Node* node = nodes_.by_process(process)) nodes_.link_broke(*node, why);
  const auto runs = jobs_.running();  // a copy: a run may end meanwhile
  for (const auto& [id, run] : runs) run->process_lost(process);
}

void ClusterHead::lose(NodeTable::Node& node, const std::string& reason) {
  const std::uint64_t process = node.process;
  const auto forgotten = nodes_.mark_lost(node, reason);
  const NodeRecord record = node.record;
  shown_.erase(record.id);
  std::vector<Change> changes;
  for (const auto& id : forgotten) changes.push_back(change::RemoveNode{id});
  system_.disconnect({process}, "the node was given up: " + reason);
  const auto runs = jobs_.running();
  for (const auto& [id, run] : runs) {
    auto lost = run->node_lost(record.id, reason);
    // The node may be stopped and unable to end its workers, so their links are closed too: a worker whose link is
    // closed asks whether it is still wanted, and ends when it is not.
    for (const auto worker : lost.processes) {
      system_.disconnect({worker}, "node " + record.name + " was given up: " + reason);
    }
    for (auto& one : lost.changes) changes.push_back(std::move(one));
  }
  append_node_changes(changes, record, Severity::error, "node.lost", "node " + record.name + " was lost: " + reason);
  tasks_.spawn("record", this->record(std::move(changes)));
  jobs_.dispatch();
}

void ClusterHead::append_node_changes(std::vector<Change>& changes, const NodeRecord& node, Severity severity,
                                      std::string kind, std::string message) const {
  auto noted = services_.event({}, severity, std::move(kind), std::move(message));
  noted.event.node = node.name;
  changes.push_back(change::PutNode{node});
  changes.push_back(std::move(noted));
  changes.push_back(change::Publish{StreamKind::node, {}, to_text(to_json(with_workers(node)))});
}

net::awaitable<void> ClusterHead::record(std::vector<Change> changes) {
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) spdlog::error("head: {}", committed.error().message());
}

/// Looks only at what runs on the node: heartbeats and pages of nodes ask for it.
NodeRecord ClusterHead::with_workers(NodeRecord node) const {
  for (const auto& [worker_id, grant] : nodes_.grants_on(node.id)) {
    const auto run = jobs_.run_of_job(grant.job_id);
    const Process* process = run ? run->processes().find(worker_id) : nullptr;
    if (process != nullptr) node.workers.push_back(process->record);
  }
  std::ranges::sort(node.workers, {}, [](const auto& one) { return std::tie(one.job_id, one.rank); });
  return node;
}

net::awaitable<Result<std::vector<NodeRecord>>> ClusterHead::nodes() { return here(nodes_here()); }

net::awaitable<Result<std::vector<NodeRecord>>> ClusterHead::nodes_here() {
  auto records = nodes_.records();
  for (auto& record : records) record = with_workers(std::move(record));
  co_return records;
}

net::awaitable<Result<NodeRecord>> ClusterHead::node(std::string id) { return here(node_here(std::move(id))); }

net::awaitable<Result<NodeRecord>> ClusterHead::node_here(std::string id) {
  const NodeTable::Node* node = nodes_.find(id);
  if (node == nullptr) co_return no_node(id);
  co_return with_workers(node->record);
}

net::awaitable<Result<NodeRecord>> ClusterHead::drain(std::string id) { return here(drain_here(std::move(id), true)); }
net::awaitable<Result<NodeRecord>> ClusterHead::undrain(std::string id) {
  return here(drain_here(std::move(id), false));
}

net::awaitable<Result<NodeRecord>> ClusterHead::drain_here(std::string id, bool drained) {
  co_await removal_decided(id);
  NodeTable::Node* node = nodes_.find(id);
  if (node == nullptr) co_return no_node(id);
  if (drained && node->record.state == NodeState::lost) {
    co_return Error{Errc::conflict, "node " + node->record.name + " is lost"};
  }
  const bool before = node->record.drained;
  nodes_.set_drained(*node, drained);  // now, so that it is part of whatever else is committed of the node meanwhile
  const NodeRecord record = node->record;
  std::vector<Change> changes;
  if (drained == before) {
    changes.push_back(change::PutNode{record});  // a repeat: what it repeats may not be committed yet
  } else {
    append_node_changes(
        changes, record, Severity::info, drained ? "node.draining" : "node.undrained",
        drained ? "nothing more is placed on node " + record.name : "node " + record.name + " takes work again");
  }
  auto committed = co_await services_.store->commit(std::move(changes));
  if (auto* still = nodes_.find(record.id)) {
    if (committed) still->drained_in_store = drained;
    nodes_.set_drained(*still, still->drained_in_store);
  }
  jobs_.dispatch();  // reasons to wait have changed
  if (!committed) co_return committed.error();
  co_return with_workers(record);
}

net::awaitable<Result<void>> ClusterHead::forget(std::string id) { return here(forget_here(std::move(id))); }

net::awaitable<Result<void>> ClusterHead::forget_here(std::string id) {
  co_await removal_decided(id);
  NodeTable::Node* node = nodes_.find(id);
  if (node == nullptr) co_return no_node(id);
  const NodeRecord record = node->record;
  if (record.state != NodeState::lost) {
    co_return Error{Errc::conflict, "node " + record.name + " is " + std::string(to_string(record.state)) +
                                        "; stop its agent first, and drain it before that if workers run there"};
  }
  std::vector<Change> changes;
  changes.push_back(change::RemoveNode{record.id});
  auto noted = services_.event({}, Severity::info, "node.forgotten", "node " + record.name + " was forgotten");
  noted.event.node = record.name;
  changes.push_back(std::move(noted));
  const SetAtEnd decided(node->removal.emplace());
  auto committed = co_await services_.store->commit(std::move(changes));
  if (committed) nodes_.forget(record.id);
  co_return committed;
}

net::awaitable<void> ClusterHead::removal_decided(std::string id_or_name) {
  for (;;) {
    const NodeTable::Node* node = nodes_.find(id_or_name);
    if (node == nullptr || !node->removal || node->removal->is_set()) co_return;
    const runtime::Event decided = *node->removal;
    if (!co_await decided.wait()) co_return;
  }
}

// --- jobs ---

net::awaitable<Result<Submission>> ClusterHead::submit(nlohmann::json spec, std::string idempotency_key) {
  return here(jobs_.submit(std::move(spec), std::move(idempotency_key)));
}

net::awaitable<Result<Validation>> ClusterHead::validate(nlohmann::json spec) {
  return here(jobs_.validate(std::move(spec)));
}

net::awaitable<Result<JobPage>> ClusterHead::jobs(JobQuery query) {
  if (auto good = check_limit(query.limit, page_max); !good) co_return good.error();
  auto page = co_await services_.store->jobs(std::move(query));
  if (!page) co_return page;
  co_return co_await here(explained(std::move(*page)));
}

net::awaitable<Result<JobTotals>> ClusterHead::job_totals() { return here(job_totals_here()); }

net::awaitable<Result<JobTotals>> ClusterHead::job_totals_here() {
  JobTotals totals;
  totals.counts = services_.store->job_counts();
  for (const auto& [id, run] : jobs_.running()) {
    const auto figure = [&summary = run->job().summary](const char* name) {
      const auto found = summary.find(name);
      return found != summary.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    totals.bytes_sent += figure("bytes_sent");
    totals.bytes_dense += figure("bytes_dense");
    if (run->job().phase == JobPhase::training) totals.samples_per_second += figure("samples_per_second");
  }
  co_return totals;
}

net::awaitable<Result<JobRecord>> ClusterHead::job(std::string id) {
  auto job = co_await existing_job(std::move(id));
  if (!job || terminal(job->state)) co_return job;
  JobPage page;
  page.jobs.push_back(std::move(*job));
  auto with_reason = co_await here(explained(std::move(page)));
  if (!with_reason) co_return with_reason.error();
  co_return std::move(with_reason->jobs.front());
}

/// Adds to each waiting job of a page why it waits.
net::awaitable<Result<JobPage>> ClusterHead::explained(JobPage page) {
  jobs_.explain_waiting(page.jobs);
  co_return page;
}

net::awaitable<Result<JobRecord>> ClusterHead::existing_job(std::string id) {
  auto job = co_await services_.store->job(id);
  if (!job) co_return job.error();
  if (!*job) co_return no_job(id);
  co_return std::move(**job);
}

net::awaitable<Result<std::vector<WorkerRecord>>> ClusterHead::workers(std::string id) {
  return here(workers_here(std::move(id)));
}

net::awaitable<Result<std::vector<WorkerRecord>>> ClusterHead::workers_here(std::string id) {
  if (const auto run = jobs_.run_of_job(id)) co_return run->workers();
  if (auto job = co_await existing_job(id); !job) co_return job.error();
  co_return co_await services_.store->workers(id);
}

net::awaitable<Result<JobRecord>> ClusterHead::stop_job(std::string id) { return here(jobs_.stop_job(std::move(id))); }
net::awaitable<Result<void>> ClusterHead::remove_job(std::string id) { return here(jobs_.remove_job(std::move(id))); }

net::awaitable<Result<std::vector<MetricSeries>>> ClusterHead::metrics(MetricQuery query) {
  if (query.points < 1 || query.points > points_max) {
    co_return Error{Errc::invalid_argument, "points must be between 1 and " + std::to_string(points_max)};
  }
  if (auto job = co_await existing_job(query.job_id); !job) co_return job.error();
  co_return co_await services_.store->metrics(std::move(query));
}

net::awaitable<Result<std::unique_ptr<MetricReader>>> ClusterHead::metric_points(MetricQuery query) {
  auto job = co_await existing_job(query.job_id);
  if (!job) co_return job.error();
  co_return co_await read_metrics(services_.store, std::move(query), job->restarts > 0);
}

net::awaitable<Result<std::vector<WorkerTraffic>>> ClusterHead::traffic(TrafficQuery query) {
  if (auto job = co_await existing_job(query.job_id); !job) co_return job.error();
  co_return co_await services_.store->traffic(std::move(query));
}

net::awaitable<Result<LogSlice>> ClusterHead::logs(std::string id, std::uint32_t worker, std::uint64_t offset,
                                                   std::uint64_t limit) {
  auto job = co_await existing_job(id);
  if (!job) co_return job.error();
  if (const auto ranks = ranks_of(*job); worker >= ranks) {
    co_return Error{Errc::not_found, "job " + id + " has the ranks 0 to " + std::to_string(ranks - 1)};
  }
  auto read = [file = job_files::log_file(services_.job_dir(job->id), worker), offset,
               limit = std::min(limit, log_bytes_max)] { return job_files::read_log(file, offset, limit); };
  auto slice = co_await run_on(services_.logs, std::move(read));
  if (slice) slice->complete = terminal(job->state);
  co_return slice;
}

net::awaitable<Result<std::vector<LogSize>>> ClusterHead::log_sizes(std::string id) {
  auto job = co_await existing_job(id);
  if (!job) co_return job.error();
  auto look = [dir = services_.job_dir(job->id), ranks = ranks_of(*job)] { return job_files::log_sizes(dir, ranks); };
  co_return co_await run_on(services_.logs, std::move(look));
}

net::awaitable<Result<EventPage>> ClusterHead::events(EventQuery query) {
  if (auto good = check_limit(query.limit, page_max); !good) co_return good.error();
  if (!query.job_id.empty()) {
    if (auto job = co_await existing_job(query.job_id); !job) co_return job.error();
  }
  co_return co_await services_.store->events(std::move(query));
}

net::awaitable<Result<std::vector<CheckpointRecord>>> ClusterHead::checkpoints(std::string id) {
  if (auto job = co_await existing_job(id); !job) co_return job.error();
  co_return co_await services_.store->checkpoints(std::move(id));
}

net::awaitable<Result<std::filesystem::path>> ClusterHead::checkpoint_path(std::string id, std::uint64_t step) {
  auto checkpoints = co_await this->checkpoints(id);
  if (!checkpoints) co_return checkpoints.error();
  for (const auto& one : *checkpoints) {
    if (one.step == step) co_return job_files::checkpoint_file(services_.job_dir(id), step);
  }
  co_return Error{Errc::not_found, "job " + id + " has no checkpoint at step " + std::to_string(step)};
}

// --- the rest ---

net::awaitable<Result<ActorPage>> ClusterHead::actors(std::string filter, std::uint32_t limit, std::string cursor) {
  if (auto good = check_limit(limit, page_max); !good) co_return good.error();
  co_return co_await here(actors_here(std::move(filter), limit, std::move(cursor)));
}

net::awaitable<Result<ActorPage>> ClusterHead::actors_here(std::string filter, std::uint32_t limit,
                                                           std::string cursor) {
  ActorsFound found(std::move(filter), limit, std::move(cursor));
  for (const auto& info : system_.actors()) {
    if (info.name.empty()) continue;
    const char* state = info.state == runtime::ActorState::running ? "running" : "stopping";
    found.add({"head/" + info.name, info.type, state, "", "", info.mailbox_depth, info.messages_handled});
  }
  const auto add = [&found](std::string name, std::string_view type, const std::string& node, const std::string& job) {
    found.add({std::move(name), std::string(type), "running", node, job, {}, {}});
  };
  for (const auto& node : nodes_.records()) {
    if (node.state != NodeState::lost) add(node.name + "/agent", protocol::NodeAgent::type_name, node.name, "");
  }
  for (const auto& [id, run] : jobs_.running()) {
    for (const Process& process : run->processes()) {
      const WorkerRecord& worker = process.record;
      if (worker.state != WorkerState::running) continue;
      const std::string type(protocol::actor_type(worker.role));
      add(worker.id + "/" + type, protocol::Training::type_name, worker.node, id);
      add(worker.id + "/worker", protocol::Worker::type_name, worker.node, id);
    }
  }
  co_return found.page();
}

net::awaitable<Result<std::unique_ptr<Subscription>>> ClusterHead::subscribe(Topics topics,
                                                                             std::optional<std::uint64_t> after) {
  co_return services_.stream->subscribe(std::move(topics), after);
}

net::awaitable<Result<Health>> ClusterHead::health() { return here(health_here()); }

net::awaitable<Result<Health>> ClusterHead::health_here() {
  Health health;
  const auto writable = co_await probe_.ask();
  health.store_writable = writable.has_value();
  if (!writable) health.detail = writable.error().message();
  health.accepting = !stopping_ && !control_address_.empty();
  if (!health.accepting && health.detail.empty()) health.detail = "the head is starting or stopping";
  co_return health;
}

}  // namespace weir::cluster
