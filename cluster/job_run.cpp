#include "cluster/job_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/hmac.hpp"
#include "cluster/exit_text.hpp"
#include "cluster/job_files.hpp"
#include "cluster/run_on.hpp"
#include "protocol/acknowledged.hpp"
#include "runtime/actor_ref.hpp"
#include "runtime/actor_system.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using protocol::NodeAgent;
using protocol::Training;
using protocol::Worker;

constexpr auto spawn_limit = 120s;       // a process that loads LibTorch on a busy machine
constexpr auto prepare_limit = 300s;     // reads the dataset
constexpr auto start_limit = 60s;        // connects the group
constexpr auto stop_limit = 120s;        // the ranks agree on a step and write a checkpoint
constexpr auto explain_limit = 4s;       // a broken connection is noticed before the death that caused it
constexpr auto repeat_pause = 500ms;     // before a call that found no link is repeated
constexpr auto exit_grace = 3s;          // between SIGTERM and SIGKILL
constexpr auto exit_limit = 20s;         // after that a worker counts as gone, whatever its node says
constexpr auto checkpoint_limit = 120s;  // writing the last one
constexpr auto publish_interval = 1s;    // progress of the job as a whole

}  // namespace

JobRun::JobRun(Services& services, NodeTable& nodes, Plan plan, const std::vector<std::string>& node_ids,
               std::function<void()> on_room)
    : services_(services),
      nodes_(nodes),
      job_(std::move(plan.job)),
      spec_(std::move(plan.spec)),
      spec_text_(to_text(job_.spec)),
      resume_file_(std::move(plan.resume_file)),
      on_room_(std::move(on_room)),
      ranks_(node_ids.size()),
      figures_(static_cast<std::uint32_t>(node_ids.size()), std::move(plan.past)),
      attempt_(services.next_fence()),
      secret_(hex(random_digest())),
      checkpoints_(services_, job_.id, ranks_.size(), spec_.checkpoints_kept, std::move(plan.checkpoints)),
      calls_(services.strand, "job " + job_.id),
      records_(services.strand, "job " + job_.id) {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& one = ranks_[rank];
    const NodeTable::Node* node = nodes_.find(node_ids[rank]);
    ensure(node != nullptr, "a gang is placed on nodes that exist");
    one.record.id = services_.new_id();
    one.record.job_id = job_.id;
    one.record.rank = rank;
    one.record.node_id = node->record.id;
    one.record.node = node->record.name;
    one.agent = node->agent;
    one.log_begin = job_files::size_of(job_files::log_file(services_.job_dir(job_.id), rank));
    nodes_.grant(one.record.node_id, one.record.id, spec_.resources.per_worker);
  }
  services_.system->allow(account(), secret_);
}

net::awaitable<JobRun::Ending> JobRun::run() {
  job_.state = JobState::running;
  if (!job_.started_at) job_.started_at = services_.now();
  job_.reason.clear();
  enter(JobPhase::spawning);
  Ending ending = co_await attempt();
  if (!abandoned_) co_await take_down(ending.state == JobState::failed);
  finished_ = true;
  services_.system->forbid(account(), "the attempt of job " + job_.id + " is over");
  co_await calls_.stop(services_.clock, 1s);
  co_await records_.join();
  co_return ending;
}

net::awaitable<JobRun::Ending> JobRun::attempt() {
  if (resume_file_) {
    auto read = [file = *resume_file_] { return job_files::read_checkpoint(file); };
    auto checkpoint = co_await run_on(services_.files, std::move(read));
    if (!checkpoint) {
      for (Rank& rank : ranks_) let_go(rank);
      co_return Ending{JobState::failed, "the checkpoint to go on from: " + checkpoint.error().message()};
    }
    resume_from_ = std::move(*checkpoint);
  }
  // Each phase is started on every rank and then awaited for all of them.
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) calls_.spawn("launch", launch(rank));
  std::function<bool()> all_up = [this] { return every_rank([](const Rank& r) { return bool(r.actor); }); };
  auto waited = co_await until(spawn_limit, all_up);
  if (waited == Waited::late) co_return late("did not come up", [](const Rank& r) { return !r.actor; });

  if (waited == Waited::done) {
    enter(JobPhase::initialising);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) calls_.spawn("prepare", prepare(rank));
    std::function<bool()> all_prepared = [this] { return every_rank([](const Rank& r) { return bool(r.endpoint); }); };
    waited = co_await until(prepare_limit + protocol::time_for(resume_from_.size() * ranks_.size()), all_prepared);
    if (waited == Waited::late) co_return late("were not ready", [](const Rank& r) { return !r.endpoint; });
  }
  if (waited == Waited::done) {
    std::vector<protocol::RankEndpoint> peers;
    for (const Rank& rank : ranks_) peers.push_back(*rank.endpoint);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) calls_.spawn("start", start(rank, peers));
    std::function<bool()> all_started = [this] { return every_rank([](const Rank& r) { return r.started || r.end; }); };
    waited = co_await until(start_limit, all_started);
    if (waited == Waited::late) co_return late("did not start", [](const Rank& r) { return !r.started; });
  }
  if (waited == Waited::done) {
    enter(JobPhase::training);
    std::function<bool()> all_ended = [this] { return every_rank([](const Rank& r) { return r.end.has_value(); }); };
    waited = co_await until(runtime::Clock::duration::max(), all_ended);
    if (waited == Waited::done) co_return Ending{JobState::succeeded, {}};
    if (waited == Waited::stopped) co_return co_await stop_training();
  }
  if (waited == Waited::stopped) {
    enter(JobPhase::stopping);
    co_return Ending{JobState::stopped, "stopped on request before the training began"};
  }
  co_return co_await explain_failure();
}

/// Asks the training ranks to stop at a step that all agree on, and waits for their ends.
net::awaitable<JobRun::Ending> JobRun::stop_training() {
  enter(JobPhase::stopping);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) calls_.spawn("stop", ask_to_stop(rank));
  std::function<bool()> all_ended = [this] { return every_rank([](const Rank& r) { return r.end.has_value(); }); };
  const auto waited = co_await until(stop_limit, all_ended);
  if (waited == Waited::failed) co_return co_await explain_failure();
  if (waited != Waited::done) {
    co_return Ending{JobState::stopped,
                     "stopped on request; the workers did not agree on a step in time, so the "
                     "newest checkpoint is an older one"};
  }
  co_return Ending{JobState::stopped, "stopped on request at step " + std::to_string(steps_done())};
}

/// Called after the first symptom of a failure; waits a moment for the cause behind it.
net::awaitable<JobRun::Ending> JobRun::explain_failure() {
  if (abandoned_) co_return Ending{JobState::failed, "the head stops"};
  for (const Rank& rank : ranks_) {  // ranks that wait for a lost peer stop waiting
    if (!rank.trainer || rank.gone || rank.end) continue;
    const auto told = rank.trainer.tell<&Training::abort>(cause_.empty() ? symptom_ : cause_);
    if (!told) spdlog::debug("job {}: {} cannot be told to abort: {}", job_.id, describe(rank), told.error().message());
  }
  const auto deadline = services_.clock.now() + explain_limit;
  while (cause_.empty() && !abandoned_ && services_.clock.now() < deadline) {
    co_await changed_.wait_until(services_.clock, deadline);
  }
  co_return Ending{JobState::failed, cause_.empty() ? symptom_ : cause_, lost_};
}

JobRun::Ending JobRun::late(const std::string& what, const std::function<bool(const Rank&)>& missing) const {
  std::string who;
  for (const Rank& rank : ranks_) {
    if (missing(rank)) who += (who.empty() ? "" : ", ") + describe(rank);
  }
  return {JobState::failed, who + " " + what + " in time (phase " + std::string(to_string(job_.phase)) + ")", true};
}

net::awaitable<JobRun::Waited> JobRun::until(runtime::Clock::duration limit, std::function<bool()> done) {
  const bool stop_seen_before = job_.phase == JobPhase::stopping;
  const auto now = services_.clock.now();
  const auto deadline = limit > 24h * 365 ? runtime::Clock::time_point::max() : now + limit;
  for (;;) {
    if (abandoned_ || !symptom_.empty() || !cause_.empty()) co_return Waited::failed;
    if (done()) co_return Waited::done;
    if (stop_requested_ && !stop_seen_before) co_return Waited::stopped;
    const auto at = services_.clock.now();
    if (at >= deadline) co_return Waited::late;
    co_await changed_.wait_until(services_.clock, std::min(deadline, at + 1h));
  }
}

net::awaitable<void> JobRun::launch(std::uint32_t rank) {
  Rank& one = ranks_[rank];
  const NodeTable::Node* node = nodes_.find(one.record.node_id);
  protocol::WorkerLaunch launch;
  launch.worker_id = one.record.id;
  launch.job_id = job_.id;
  launch.rank = rank;
  launch.secret = secret_;
  launch.lease_id = node == nullptr ? 0 : node->record.lease_id;
  launch.resources = spec_.resources.per_worker;
  auto started = co_await one.agent.call<&NodeAgent::start_worker>(launch);
  while (!started && !one.gone &&
         protocol::may_be_repeated(started.error())) {  // NodeTable decides when to give the node up
    if (!co_await services_.clock.sleep_for(repeat_pause)) co_return;
    if (!one.gone) started = co_await one.agent.call<&NodeAgent::start_worker>(launch);
  }
  if (one.gone) co_return;
  if (!started) {
    fail("worker " + std::to_string(rank) + " could not be started on node " + one.record.node + ": " +
             started.error().message(),
         true);
    let_go(one);
    co_return;
  }
  one.record.pid = started->pid;
  one.record.started_at = services_.now();
  note(Severity::info, "worker.started", describe(one) + " was started", &one);
}

net::awaitable<void> JobRun::prepare(std::uint32_t rank) {
  Rank& one = ranks_[rank];
  auto created = co_await one.actor.call<&Worker::create>("trainer", "trainer");
  if (!created) {
    lost_ = lost_ || created.error().code == Errc::peer_lost;
    fail(describe(one) + " cannot make a trainer: " + created.error().message(),
         created.error().code != Errc::peer_lost);
    co_return;
  }
  one.trainer = {one.actor.router(), {one.actor.address().process, *created}};
  protocol::Assignment assignment;
  assignment.job_id = job_.id;
  assignment.spec = spec_text_;
  assignment.rank = rank;
  assignment.world = static_cast<std::uint32_t>(ranks_.size());
  assignment.attempt = attempt_;
  assignment.group_secret = secret_;
  const NodeTable::Node* node = nodes_.find(one.record.node_id);
  assignment.listen_host = node == nullptr ? std::string() : node->record.host;
  assignment.resume_from = resume_from_;
  const auto trainer = one.trainer.within(prepare_limit + protocol::time_for(resume_from_.size()));
  auto prepared = co_await trainer.call<&Training::prepare>(std::move(assignment));
  if (!prepared) {
    lost_ = lost_ || prepared.error().code == Errc::peer_lost;
    const bool sure = prepared.error().code != Errc::peer_lost && prepared.error().code != Errc::cancelled;
    fail(describe(one) + " cannot begin: " + prepared.error().message(), sure);
    co_return;
  }
  one.endpoint = prepared->endpoint;
  one.endpoint->rank = rank;
  one.record.state = WorkerState::running;
  job_.steps_total = std::max(job_.steps_total, prepared->steps_total);
  changed_.notify();
}

net::awaitable<void> JobRun::start(std::uint32_t rank, std::vector<protocol::RankEndpoint> peers) {
  Rank& one = ranks_[rank];
  auto started = co_await one.trainer.within(start_limit).call<&Training::start>(std::move(peers));
  if (!started) {
    lost_ = lost_ || started.error().code == Errc::peer_lost;
    const bool sure = started.error().code != Errc::peer_lost && started.error().code != Errc::cancelled;
    fail(describe(one) + " cannot reach its peers: " + started.error().message(), sure);
    co_return;
  }
  one.started = true;
  changed_.notify();
}

/// Repeats the call while the link is broken, until the process or its node is gone.
net::awaitable<void> JobRun::end_worker(std::uint32_t rank, std::chrono::milliseconds grace) {
  const Rank& one = ranks_[rank];
  const auto milliseconds = static_cast<std::uint32_t>(grace.count());
  while (!one.gone) {
    const auto told = co_await one.agent.call<&NodeAgent::stop_worker>(one.record.id, milliseconds);
    if (told || !co_await services_.clock.sleep_for(repeat_pause)) co_return;
    spdlog::warn("job {}: {} cannot be told to end: {}", job_.id, describe(one), told.error().message());
  }
}

/// Repeats the call while the link is broken.
net::awaitable<void> JobRun::ask_to_stop(std::uint32_t rank) {
  const Rank& one = ranks_[rank];
  while (!one.gone && !one.end) {
    const auto told = co_await one.trainer.call<&Training::stop>();
    if (told) co_return;
    if (!protocol::may_be_repeated(told.error())) co_return fail(describe(one) + ": " + told.error().message(), false);
    if (!co_await services_.clock.sleep_for(repeat_pause)) co_return;
  }
}

/// Ends all workers and waits until no process is left; after exit_limit it counts them as gone.
net::awaitable<void> JobRun::take_down(bool failed) {
  taking_down_ = true;
  const auto grace = std::chrono::milliseconds(failed ? 1000ms : std::chrono::milliseconds(exit_grace));
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].gone) calls_.spawn("end worker", end_worker(rank, grace));
  }
  const auto deadline = services_.clock.now() + exit_limit;
  while (!abandoned_ && services_.clock.now() < deadline && !every_rank([](const Rank& r) { return r.gone; })) {
    co_await changed_.wait_until(services_.clock, deadline);
  }
  for (Rank& rank : ranks_) {
    if (rank.gone) continue;
    note(Severity::warning, "worker.unknown",
         "node " + rank.record.node + " did not say how " + describe(rank) + " ended", &rank);
    let_go(rank);
  }
  const auto written = services_.clock.now() + checkpoint_limit;
  while (!abandoned_ && checkpoints_under_way_ > 0 && services_.clock.now() < written) {
    co_await changed_.wait_until(services_.clock, written);
  }
  job_.step = std::max(job_.step, steps_done());
}

void JobRun::request_stop() {
  stop_requested_ = true;
  changed_.notify();
}

void JobRun::abandon() {
  abandoned_ = true;
  for (const Rank& rank : ranks_) {
    if (rank.gone) continue;
    const auto told = rank.agent.tell<&NodeAgent::stop_worker>(rank.record.id, 1000u);
    if (!told) spdlog::debug("job {}: {} ends with its node's lease", job_.id, describe(rank));
  }
  changed_.notify();
}

Result<void> JobRun::worker_up(const std::string& worker_id, runtime::ActorRef<Worker> actor) {
  const auto rank = rank_of(worker_id);
  if (!rank || ranks_[*rank].gone || taking_down_) {
    return Error{Errc::conflict, "nobody waits for worker " + worker_id + " any more"};
  }
  Rank& one = ranks_[*rank];
  if (one.actor && one.actor.address().process != actor.address().process) {
    return Error{Errc::conflict, "worker " + worker_id + " is another process"};
  }
  one.actor = std::move(actor);
  one.link_broken.reset();
  changed_.notify();
  return {};
}

Result<JobRun::Rank*> JobRun::speaker(std::uint32_t rank, std::uint64_t attempt) {
  if (rank >= ranks_.size()) return Error{Errc::invalid_argument, "the job has no rank " + std::to_string(rank)};
  if (attempt != attempt_ || finished_) return Error{Errc::conflict, "this attempt of job " + job_.id + " is over"};
  return &ranks_[rank];
}

net::awaitable<Result<void>> JobRun::report(protocol::Report report) {
  auto from = speaker(report.rank, report.attempt);
  if (!from) co_return from.error();
  const auto world = static_cast<std::uint32_t>(ranks_.size());
  if (auto good = protocol::check(report.traffic, report.rank, world); !good) co_return good.error();
  Rank& rank = **from;
  std::vector<Change> changes;
  std::optional<PlanEvents> before;
  if (report.sequence > rank.reported) {  // else a repeat: the empty commit below waits for that of the first
    rank.reported = report.sequence;
    auto rows = figures_.add(report.rank, report.step, report.points);
    job_.step = figures_.step();
    summarize();
    if (!rows.empty()) {
      changes.push_back(metrics_item(job_, rows));
      changes.push_back(change::AddMetrics{job_.id, std::move(rows)});
    }
    if (auto& traffic = report.traffic) {
      if (!traffic->plans.empty()) {
        before = plan_events_;
        for (auto& message : plan_events_.add(traffic->plans)) {
          changes.push_back(services_.event(job_.id, Severity::info, "exchange.planned", std::move(message)));
        }
      }
      changes.push_back(change::PutTraffic{kept_of(job_.id, attempt_, report.rank, std::move(*traffic))});
    }
    changes.push_back(change::PutJob{job_});
    if (const auto now = services_.clock.now(); now - published_ >= publish_interval) {
      published_ = now;
      changes.push_back(job_item(job_));
    }
  }
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed && rank.reported == report.sequence) {  // so that it may be repeated
    rank.reported = report.sequence - 1;
    if (before) plan_events_ = std::move(*before);
  }
  co_return committed;
}

/// Values that this attempt has not reported yet remain those of the attempt before.
void JobRun::summarize() {
  job_.summary.update(figures_.summary());
  if (job_.step == 0 || job_.summary.contains("first_step_seconds")) return;
  job_.summary["first_step_seconds"] = std::chrono::duration<double>(services_.now() - job_.created_at).count();
}

Result<void> JobRun::checkpoint(protocol::CheckpointShare share) {
  if (auto from = speaker(share.rank, share.attempt); !from) return from.error();
  const auto step = share.step;
  if (auto complete = checkpoints_.add(std::move(share))) {
    ++checkpoints_under_way_;
    records_.spawn("checkpoint", write_checkpoint(step, std::move(*complete)));
  }
  return {};
}

net::awaitable<void> JobRun::write_checkpoint(std::uint64_t step, std::vector<Segment> shares) {
  const auto written = co_await checkpoints_.write(step, std::move(shares));
  if (written) {
    note(Severity::info, "checkpoint.saved", "checkpoint at step " + std::to_string(step), nullptr);
  } else {
    note(Severity::error, "checkpoint.failed",
         "the checkpoint at step " + std::to_string(step) + " was not written: " + written.error().message(), nullptr);
  }
  --checkpoints_under_way_;
  changed_.notify();
}

Result<void> JobRun::ended(protocol::TrainingEnd end) {
  auto from = speaker(end.rank, end.attempt);
  if (!from) return from.error();
  Rank& rank = **from;
  if (rank.end) return {};  // a repeat
  rank.end = end;
  rank.record.step = end.step;
  if (end.outcome == protocol::Outcome::finished || end.outcome == protocol::Outcome::stopped) {
    changed_.notify();
    if (end.outcome == protocol::Outcome::stopped && !stop_requested_) {
      fail(describe(rank) + " stopped though nobody asked it to", true);
    }
    return {};
  }
  std::string cause = describe(rank) + " failed: " + (end.cause.empty() ? "it gave no reason" : end.cause);
  if (end.lost_rank && *end.lost_rank < ranks_.size()) {
    lost_ = true;
    cause = describe(ranks_[*end.lost_rank]) + " was lost: " + cause;
  }
  // A rank that was told to abort reports our own symptom as its cause, which explains nothing.
  const bool echo = !symptom_.empty() && end.cause.find(symptom_) != std::string::npos;
  fail(std::move(cause), !end.lost_rank && !end.consequence && !echo);
  return {};
}

void JobRun::worker_exited(const protocol::WorkerExit& exit) {
  const auto found = rank_of(exit.worker_id);
  if (!found || ranks_[*found].gone) return;
  Rank& rank = ranks_[*found];
  if (rank.record.pid == 0) rank.record.pid = exit.pid;
  rank.record.exit_code = exit.exit_code;
  rank.record.signal = exit.signal;
  const std::string how = describe(rank) + " " + how_it_ended(exit);
  const bool well = rank.end && rank.end->outcome != protocol::Outcome::failed && exit.exit_code == 0;
  const bool expected = taking_down_ || well;
  note(expected ? Severity::info : Severity::error, "worker.exited", how, &rank);
  if (!expected) {
    lost_ = true;
    const auto last = last_line_of(exit);
    fail(how + (last.empty() ? "" : "; its last output: " + last), true);
  }
  let_go(rank);
}

std::vector<std::uint64_t> JobRun::node_lost(const std::string& node_id, const std::string& reason) {
  std::vector<std::uint64_t> processes;
  for (Rank& rank : ranks_) {
    if (rank.record.node_id != node_id || rank.gone) continue;
    if (!taking_down_) {
      lost_ = true;
      fail("node " + rank.record.node + " was lost (" + reason + ") and " + describe(rank) + " with it", true);
    }
    if (rank.actor) processes.push_back(rank.actor.address().process);
    let_go(rank);
  }
  return processes;
}

/// A broken link alone is no failure: a process that is gone is reported by its agent, or its node is lost.
void JobRun::process_lost(std::uint64_t process) {
  for (Rank& rank : ranks_) {
    if (!rank.actor || rank.actor.address().process != process || rank.gone || rank.end || taking_down_) continue;
    rank.link_broken = services_.clock.now();
  }
}

void JobRun::watch_links(runtime::Clock::duration late) {
  const auto now = services_.clock.now();
  for (Rank& rank : ranks_) {
    if (!rank.link_broken) continue;
    rank.link_broken = std::min(now, *rank.link_broken + late);
    if (rank.gone || rank.end || taking_down_) continue;
    if (now - *rank.link_broken <= std::chrono::milliseconds(NodeTable::lease_milliseconds)) continue;
    lost_ = true;
    fail("the connection to " + describe(rank) + " broke and did not come back", false);
  }
}

net::awaitable<Result<void>> JobRun::output(std::string worker_id, std::uint64_t offset, std::string text) {
  const auto found = rank_of(worker_id);
  if (!found) co_return Result<void>();
  const Rank& rank = ranks_[*found];
  auto append = [file = job_files::log_file(services_.job_dir(job_.id), *found), at = rank.log_begin + offset,
                 text = std::move(text)] { return job_files::append_log(file, at, text); };
  auto appended = co_await run_on(services_.files, std::move(append));
  if (!appended) co_return appended.error();
  if (appended->text.empty()) co_return Result<void>();
  const nlohmann::json data = {
      {"job", job_.id}, {"worker", *found}, {"offset", appended->offset}, {"text", appended->text}};
  std::vector<Change> changes;
  changes.push_back(change::Publish{StreamKind::log, job_.id, to_text(data)});
  co_return co_await services_.store->commit(std::move(changes));
}

template <class Predicate>
bool JobRun::every_rank(Predicate predicate) const {
  return std::all_of(ranks_.begin(), ranks_.end(), predicate);
}

void JobRun::enter(JobPhase phase) {
  job_.phase = phase;
  published_ = services_.clock.now();
  std::vector<Change> changes;
  changes.push_back(change::PutJob{job_});
  changes.push_back(change::PutFence{attempt_});
  changes.push_back(services_.event(job_.id, Severity::info, "job.phase", "phase " + std::string(to_string(phase))));
  for (auto& one : worker_changes()) changes.push_back(std::move(one));
  changes.push_back(job_item(job_));
  records_.spawn("record", record(std::move(changes)));
}

/// Keeps the first sign of failure and the first certain cause: later ones are consequences.
void JobRun::fail(std::string cause, bool sure) {
  std::string& kept = sure ? cause_ : symptom_;
  if (kept.empty()) kept = std::move(cause);
  changed_.notify();
}

void JobRun::let_go(Rank& rank) {
  rank.gone = true;
  rank.record.state = WorkerState::exited;
  rank.record.ended_at = services_.now();
  nodes_.release(rank.record.node_id, rank.record.id);
  changed_.notify();
  on_room_();
}

net::awaitable<void> JobRun::record(std::vector<Change> changes) {
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) spdlog::error("job {}: {}", job_.id, committed.error().message());
}

void JobRun::note(Severity severity, std::string kind, std::string message, const Rank* rank) {
  auto noted = services_.event(job_.id, severity, std::move(kind), std::move(message));
  std::vector<Change> changes;
  if (rank != nullptr) {
    noted.event.node = rank->record.node;
    noted.event.worker = rank->record.rank;
    changes.push_back(change::PutWorker{rank->record});
  }
  changes.push_back(std::move(noted));
  records_.spawn("record", record(std::move(changes)));
}

std::string JobRun::describe(const Rank& rank) const {
  std::string text = "worker " + std::to_string(rank.record.rank) + " on node " + rank.record.node;
  if (rank.record.pid != 0) text += " (process " + std::to_string(rank.record.pid) + ")";
  return text;
}

std::optional<std::uint32_t> JobRun::rank_of(const std::string& worker_id) const {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].record.id == worker_id) return rank;
  }
  return std::nullopt;
}

/// The steps completed by all workers, according to their reports and their TrainingEnd.
std::uint64_t JobRun::steps_done() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Rank& rank : ranks_) {
    least = std::min(least, std::max(figures_.step_of(rank.record.rank), rank.end ? rank.end->step : 0));
  }
  return least;
}

std::vector<WorkerRecord> JobRun::workers() const {
  std::vector<WorkerRecord> result;
  for (const Rank& rank : ranks_) {
    WorkerRecord record = rank.record;
    record.step = std::max(record.step, figures_.step_of(record.rank));
    record.figures = figures_.figures_of(record.rank);
    result.push_back(std::move(record));
  }
  return result;
}

void JobRun::append_workers_on(const std::string& node_id, std::vector<WorkerRecord>& found) const {
  for (const Rank& rank : ranks_) {
    if (rank.record.node_id == node_id && rank.record.state != WorkerState::exited) found.push_back(rank.record);
  }
}

std::vector<Change> JobRun::worker_changes() const {
  std::vector<Change> changes;
  for (auto& worker : workers()) changes.push_back(change::PutWorker{std::move(worker)});
  return changes;
}

}  // namespace weir::cluster
