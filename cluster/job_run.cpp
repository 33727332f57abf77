#include "cluster/job_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "base/errc.hpp"
#include "base/hmac.hpp"
#include "cluster/exit_text.hpp"
#include "cluster/forecast.hpp"
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

/// The evaluation of the final model may wait for the one before.
constexpr auto final_evaluation_limit = 2 * protocol::evaluation_limit;
constexpr auto spawn_limit = 120s;       // a process that loads LibTorch on a busy machine
constexpr auto stop_limit = 120s;        // the ranks agree on a step, and begin to send a checkpoint; at least
constexpr int stop_steps = 3;            // of the longest ones, in which they do so
constexpr auto explain_limit = 4s;       // a broken connection is noticed before the death that caused it
constexpr auto gpu_limit = 2s;           // a worker fails before its node says that a GPU is lost
constexpr auto exit_grace = 3s;          // between SIGTERM and SIGKILL
constexpr auto failed_exit_grace = 1s;   // the same after a failure
constexpr auto exit_limit = 20s;         // after that a worker counts as gone, whatever its node says
constexpr auto checkpoint_limit = 120s;  // writing the last one
constexpr auto checkpoint_pause = 1s;    // before one that did not fit the disk is written again; then longer
constexpr auto checkpoint_pause_max = 30s;
constexpr std::size_t checkpoints_max = 2;  // complete ones that wait to be written; workers keep the others
constexpr auto no_limit = runtime::Clock::duration::max();

// What run() waits for, of each process.
bool is_up(const Process& process) { return bool(process.actor); }
bool is_prepared(const Process& process) { return process.endpoint.has_value(); }
bool has_started(const Process& process) { return process.started || process.end; }
bool has_ended(const Process& process) { return process.end.has_value(); }
bool has_finished(const Process& process) { return process.end->outcome == protocol::Outcome::finished; }
bool is_gone(const Process& process) { return process.gone; }

std::string describe_newest(std::uint64_t checkpoint) {
  return checkpoint == 0 ? "there is no checkpoint"
                         : "the newest checkpoint is that of step " + std::to_string(checkpoint);
}

}  // namespace

JobRun::JobRun(Services& services, NodeTable& nodes, Plan plan, const std::vector<std::string>& node_ids,
               std::function<void()> on_room)
    : services_(services),
      job_(std::move(plan.job)),
      spec_(std::move(plan.spec)),
      spec_text_(to_text(job_.spec)),
      order_(plan.order),
      resume_file_(std::move(plan.resume_file)),
      attempt_(services.next_fence()),
      secret_(hex(random_digest())),
      processes_(services_, nodes, job_.id, spec_.resources.groups, node_ids, std::move(on_room)),
      reports_(services_, job_, attempt_, Figures(world(), processes_.size(), std::move(plan.past), period_of(spec_))),
      logs_(services_, job_.id, processes_.size()),
      checkpoints_(services_, job_.id, processes_.size(), spec_.checkpoints_kept, std::move(plan.checkpoints)),
      calls_(services.strand, "job " + job_.id),
      records_(services.strand, "job " + job_.id) {
  job_.state = JobState::running;  // now, since somebody may want it to stop before run() begins
  job_.phase = state_.phase();
  if (!job_.started_at) job_.started_at = services_.now();
  job_.reason.clear();
  services_.system->allow(account(), secret_);
}

net::awaitable<JobRun::Ending> JobRun::run() {
  co_await commit_step(true);
  Ending ending = co_await attempt();
  const bool ends_in_order = !state_.abandoned();
  if (ends_in_order) co_await take_down(ending.state == JobState::failed);
  failed_ = ending.state == JobState::failed && !stops_at_a_loss();
  state_.enter(Step::over);
  changed_.notify();
  services_.system->forbid(account(), "the attempt of job " + job_.id + " is over");
  co_await calls_.stop(services_.clock, 1s);
  co_await records_.join();
  if (state_.abandoned() && !(ends_in_order && checkpoints_.newest_is_kept())) {
    ending = {JobState::failed, "the head stops"};  // what is missing is left to an attempt of the next head
  } else if (ending.state == JobState::failed && stops_at_a_loss()) {
    ending = {JobState::stopped,
              "stopped on request; " + ending.reason + "; " + describe_newest(checkpoints_.newest_kept())};
  }
  co_return ending;
}

/// Whether somebody wants the job to stop, and its attempt ends for a loss: nobody wants another one, which would cure
/// that. The wish may have come before the loss, or as late as while the processes are taken down.
bool JobRun::stops_at_a_loss() const { return state_.stop_requested() && state_.has_failed() && state_.has_lost(); }

/// Leads all processes through the steps. Each step is begun for every process and then awaited for all of them.
net::awaitable<JobRun::Ending> JobRun::attempt() {
  if (auto opened = co_await open_checkpoint(); !opened) {
    for (Process& process : processes_) let_go(process);
    co_return Ending{JobState::failed, "the checkpoint to go on from: " + opened.error().message()};
  }
  for (Process& process : processes_) calls_.spawn("launch", launch(process));
  auto waited = co_await until(spawn_limit, is_up);
  if (waited == Waited::late) co_return late("did not come up", is_up);

  if (waited == Waited::done) {
    co_await enter(Step::initialising);
    for (Process& process : processes_) calls_.spawn("prepare", prepare(process));
    waited = co_await until(prepare_time(), is_prepared);
    if (waited == Waited::late) co_return late("were not ready", is_prepared);
    if (waited == Waited::done) resume_from_.reset();  // all have theirs
  }
  if (waited == Waited::done) {
    co_await enter(Step::joining);
    std::vector<protocol::RankEndpoint> peers;
    for (const Process& process : processes_) peers.push_back(*process.endpoint);
    for (Process& process : processes_) calls_.spawn("start", start(process, peers));
    waited = co_await until(start_limit, has_started);
    if (waited == Waited::late) co_return late("did not start", has_started);
  }
  if (waited == Waited::done) {
    reports_.training_begins();
    co_await enter(Step::training);
    waited = co_await until(no_limit, has_ended);
    if (waited == Waited::done) co_return Ending{JobState::succeeded, {}};
    if (waited == Waited::stopped) co_return co_await stop_training();
  }
  if (waited == Waited::stopped) {
    co_await enter(Step::stopping);
    co_return Ending{JobState::stopped, "stopped on request before the training began"};
  }
  co_return co_await explain_failure();
}

net::awaitable<Result<void>> JobRun::open_checkpoint() {
  if (!resume_file_) co_return Result<void>();
  std::vector<protocol::Role> roles;
  for (const Process& process : processes_) roles.push_back(process.record.role);
  auto open = [file = *resume_file_, roles = std::move(roles)] { return CheckpointReader::open(file, roles); };
  auto reader = co_await run_on(services_.files, std::move(open));
  if (!reader) co_return reader.error();
  resume_from_ = std::move(*reader);
  co_return Result<void>();
}

/// In which a process reads its data, and all get what they go on from.
runtime::Clock::duration JobRun::prepare_time() const {
  return prepare_limit + protocol::time_for(resume_from_ ? resume_from_->bytes_of_all() : 0);
}

/// Steps after which training ranks have surely agreed to stop: they do so when they exchange, which in some modes they
/// do after every so many steps. Where a wish to stop goes from neighbour to neighbour in a graph, that takes a step
/// for each edge on its way, and a way between two ranks has fewer edges than there are ranks.
std::uint64_t JobRun::steps_to_agree() const {
  const auto& params = spec_.training.mode.params;
  const std::uint64_t edges = params.contains("graph") ? world() : 0;
  return 16 + 2 * (period_of(spec_) + params.value("delay", std::uint64_t{0}) + edges);
}

/// After which ranks that have neither made a step nor sent anything are not waited for any longer.
std::chrono::seconds JobRun::stop_time() const {
  return std::max(stop_limit, std::chrono::ceil<std::chrono::seconds>(stop_steps * reports_.longest_step()));
}

/// Asks the training ranks to stop at a step that all agree on, and waits for their ends: for as long as they make
/// steps until then, send something that is as large as a checkpoint, or evaluate the model of the last step.
net::awaitable<JobRun::Ending> JobRun::stop_training() {
  co_await enter(Step::stopping);
  for (Process& process : processes_) calls_.spawn("stop", ask_to_stop(process));
  const auto evaluated = services_.clock.now() + final_evaluation_limit;
  const std::uint64_t agreed_after = steps_done() + steps_to_agree();
  auto waited = Waited::late;
  for (bool busy = true; busy && waited == Waited::late;) {
    const auto before = bytes_received();
    const auto step_before = steps_done();
    const auto limit = stop_time();
    waited = co_await until(limit, has_ended);
    const auto now = bytes_received();  // less than before if a link broke: the new one counts from 0
    const bool sending = now < before || now - before >= protocol::slow_bytes_per_second * limit.count();
    const bool on_the_way = steps_done() > step_before && steps_done() < agreed_after;
    busy = sending || on_the_way || (all_steps_done() && services_.clock.now() < evaluated);
  }
  if (waited == Waited::failed) co_return co_await explain_failure();
  if (waited == Waited::done && processes_.every(has_finished)) co_return Ending{JobState::succeeded, {}};
  const std::uint64_t step = std::max(steps_done(), checkpoints_.newest());
  if (waited != Waited::done && all_steps_done()) {
    co_return Ending{JobState::stopped, "stopped on request; the final evaluation did not end in time"};
  }
  if (waited != Waited::done && !checkpoints_.is_complete(step)) {
    const auto newest = std::max(checkpoints_.newest(), checkpoints_.newest_kept());
    co_return Ending{JobState::stopped,
                     "stopped on request; the workers did not agree on a step in time; " + describe_newest(newest)};
  }
  co_return Ending{JobState::stopped, "stopped on request at step " + std::to_string(step)};
}

/// Called after the first sign of a failure; waits a moment for the cause behind it.
net::awaitable<JobRun::Ending> JobRun::explain_failure() {
  if (state_.abandoned()) co_return Ending{JobState::failed, "the head stops"};
  for (const Process& process : processes_) {  // ranks that wait for a lost peer stop waiting
    if (!process.trainer || process.gone || process.end) continue;
    const auto told = process.trainer.tell<&Training::abort>(state_.reason());
    if (!told) {
      spdlog::debug("job {}: {} cannot be told to abort: {}", job_.id, describe(process), told.error().message());
    }
  }
  const auto deadline = services_.clock.now() + explain_limit;
  while (!state_.knows_cause() && !state_.abandoned() && services_.clock.now() < deadline) {
    co_await changed_.wait_until(services_.clock, deadline);
  }
  const auto on_gpu = [](const Process& process) { return !process.record.gpus.empty(); };
  const bool on_gpus = std::ranges::any_of(processes_, on_gpu);
  const auto known = services_.clock.now() + gpu_limit;
  while (on_gpus && !state_.has_lost() && !state_.abandoned() && services_.clock.now() < known) {
    co_await changed_.wait_until(services_.clock, known);
  }
  co_return Ending{JobState::failed, state_.reason()};
}

JobRun::Ending JobRun::late(const std::string& what, bool (*done)(const Process&)) {
  const std::string who = processes_.names_of([done](const Process& process) { return !done(process); });
  state_.note_loss();
  state_.blame(who + " " + what + " in time (phase " + std::string(to_string(job_.phase)) + ")");
  return {JobState::failed, state_.reason()};
}

net::awaitable<JobRun::Waited> JobRun::until(runtime::Clock::duration limit, bool (*done)(const Process&)) {
  const bool may_stop = state_.step() != Step::stopping;
  const auto now = services_.clock.now();
  const auto deadline = limit == no_limit ? runtime::Clock::time_point::max() : now + limit;
  for (;;) {
    if (state_.abandoned() || state_.has_failed()) co_return Waited::failed;
    if (processes_.every(done)) co_return Waited::done;
    if (state_.stop_requested() && may_stop) co_return Waited::stopped;
    const auto at = services_.clock.now();
    if (at >= deadline) co_return Waited::late;
    co_await changed_.wait_until(services_.clock, std::min(deadline, at + 1h));
  }
}

/// Ends all processes and waits until none is left; after exit_limit they count as gone.
net::awaitable<void> JobRun::take_down(bool failed) {
  co_await enter(Step::taking_down);
  const std::chrono::milliseconds grace = failed ? failed_exit_grace : exit_grace;
  for (Process& process : processes_) {
    if (!process.gone) calls_.spawn("end process", end_process(process, grace));
  }
  const auto deadline = services_.clock.now() + exit_limit;
  while (!state_.abandoned() && services_.clock.now() < deadline && !processes_.every(is_gone)) {
    co_await changed_.wait_until(services_.clock, deadline);
  }
  for (Process& process : processes_) {
    if (process.gone) continue;
    let_go(process);
    note(Severity::warning, "worker.unknown",
         "node " + process.record.node + " did not say how " + describe(process) + " ended", &process);
  }
  const auto written = services_.clock.now() + checkpoint_limit;
  while (!state_.abandoned() && checkpoints_under_way_ > 0 && services_.clock.now() < written) {
    co_await changed_.wait_until(services_.clock, written);
  }
  job_.step = std::max(job_.step, steps_done());
}

// What happens to the job.

bool JobRun::request_stop() {
  const bool phase_is_new = state_.request_stop();
  job_.phase = state_.phase();
  if (!stop_requested_at_) stop_requested_at_ = services_.clock.now();
  changed_.notify();
  return phase_is_new;
}

void JobRun::abandon() {
  state_.abandon();
  for (const Process& process : processes_) {
    if (process.gone) continue;
    const auto told = process.agent.tell<&NodeAgent::stop_worker>(process.record.id, 1000u);
    if (!told) spdlog::debug("job {}: {} ends with its node's lease", job_.id, describe(process));
  }
  changed_.notify();
}

Result<void> JobRun::worker_up(const std::string& worker_id, runtime::ActorRef<Worker> actor) {
  Process* process = processes_.find(worker_id);
  if (process == nullptr || process->gone || state_.is_ending()) {
    return Error{Errc::conflict, "nobody waits for worker " + worker_id + " any more"};
  }
  auto up = processes_.come_up(*process, std::move(actor));
  if (up) changed_.notify();
  return up;
}

Result<Process*> JobRun::speaker(std::uint32_t rank, std::uint64_t attempt) {
  if (rank >= processes_.size()) return Error{Errc::invalid_argument, "the job has no rank " + std::to_string(rank)};
  if (attempt != attempt_ || state_.is_over()) {
    return Error{Errc::conflict, "this attempt of job " + job_.id + " is over"};
  }
  return &processes_[rank];
}

net::awaitable<Result<void>> JobRun::report(protocol::Report report) {
  if (auto from = speaker(report.rank, report.attempt); !from) co_return from.error();
  co_return co_await reports_.add(std::move(report));
}

Result<void> JobRun::checkpoint(const protocol::CheckpointPiece& piece) {
  if (auto from = speaker(piece.rank, piece.attempt); !from) return from.error();
  if (checkpoints_under_way_ >= checkpoints_max && !checkpoints_.is_complete(piece.step)) {
    return Error{Errc::exhausted, "checkpoints wait to be written; send it again"};
  }
  if (auto added = checkpoints_.add(piece); !added) return added;
  if (auto complete = checkpoints_.take(piece.step)) {
    ++checkpoints_under_way_;
    records_.spawn("checkpoint", write_checkpoint(piece.step, std::move(*complete)));
    changed_.notify();  // those before it are given up
  }
  return {};
}

net::awaitable<void> JobRun::write_checkpoint(std::uint64_t step, std::vector<Pieces> shares) {
  const auto begun = services_.clock.now();
  runtime::Clock::duration pause = checkpoint_pause;
  bool told = false;
  for (;;) {
    const auto written = co_await checkpoints_.write(step, shares);
    if (written) break;
    if (!std::exchange(told, true)) {
      note(Severity::error, "checkpoint.failed",
           "the checkpoint at step " + std::to_string(step) + " was not written: " + written.error().message(),
           nullptr);
    }
    if (written.error().code != Errc::exhausted) break;
    if (!co_await wait_for_room(step, begun, pause)) {
      if (is_wanted(step)) {
        lost_.push_back(services_.event(job_.id, Severity::error, "checkpoint.lost",
                                        "the checkpoint at step " + std::to_string(step) +
                                            " is lost, as the job is to stop: " + written.error().message()));
      }
      break;
    }
    pause = std::min<runtime::Clock::duration>(2 * pause, checkpoint_pause_max);
  }
  --checkpoints_under_way_;
  changed_.notify();
}

/// Whether a checkpoint that did not fit the disk is to be written again. Until a newer one is there, it is what the
/// job would go on from. An attempt that has failed waits no longer than checkpoint_limit: another may follow.
bool JobRun::is_wanted(std::uint64_t step) const {
  return !failed_ && !state_.abandoned() && checkpoints_.newest() == step;
}

/// Waits before a checkpoint is written again. Returns false if it is to be given up instead: it is not wanted any
/// more, or somebody wants the job to stop and there was no room for it within checkpoint_limit.
net::awaitable<bool> JobRun::wait_for_room(std::uint64_t step, runtime::Clock::time_point begun,
                                           runtime::Clock::duration pause) {
  const auto again = services_.clock.now() + pause;
  while (is_wanted(step)) {
    const auto now = services_.clock.now();
    auto until = again;
    if (stop_requested_at_) {
      const auto limit = std::max(begun, *stop_requested_at_) + checkpoint_limit;
      if (now >= limit) co_return false;
      until = std::min(again, limit);
    }
    if (now >= again) co_return true;
    co_await changed_.wait_until(services_.clock, until);
  }
  co_return false;
}

net::awaitable<Result<Segment>> JobRun::resume(protocol::ResumeRequest request) {
  if (auto from = speaker(request.rank, request.attempt); !from) co_return from.error();
  if (!resume_from_) co_return Error{Errc::conflict, "this attempt has no checkpoint to give"};
  auto read = [reader = resume_from_, request] { return reader->read(request.rank, request.offset); };
  co_return co_await run_on(services_.files, std::move(read));
}

Result<void> JobRun::ended(protocol::TrainingEnd end) {
  auto from = speaker(end.rank, end.attempt);
  if (!from) return from.error();
  Process& process = **from;
  if (process.end) return {};  // a repeat
  process.end = end;
  process.record.step = end.step;
  if (process.ended_well()) {
    changed_.notify();
    if (end.outcome == protocol::Outcome::stopped && !state_.stop_requested()) {
      blame(describe(process) + " stopped though nobody asked it to");
    }
    return {};
  }
  std::string cause = describe(process) + " failed: " + (end.cause.empty() ? "it gave no reason" : end.cause);
  if (end.lost_rank && *end.lost_rank < processes_.size()) {
    state_.note_loss();
    cause = describe(processes_[*end.lost_rank]) + " was lost: " + cause;
  }
  // A rank that was told to abort reports what it was told, which explains nothing.
  const bool follows = end.lost_rank || end.consequence || state_.is_echo(end.cause);
  if (follows) {
    show_sign(std::move(cause));
  } else {
    blame(std::move(cause));
  }
  return {};
}

void JobRun::worker_exited(const protocol::WorkerExit& exit) {
  Process* process = processes_.find(exit.worker_id);
  if (process == nullptr || process->gone) return;
  WorkerRecord& record = process->record;
  if (record.pid == 0) record.pid = exit.pid;
  record.exit_code = exit.exit_code;
  record.signal = exit.signal;
  const std::string how = describe(*process) + " " + how_it_ended(exit);
  const bool expected = state_.is_ending() || process->ended_well();
  const bool clean = state_.is_ending() || exit.exit_code == 0;
  let_go(*process);
  const Severity of_expected = clean ? Severity::info : Severity::warning;
  note(expected ? of_expected : Severity::error, "worker.exited", how, process);
  if (!expected) {
    state_.note_loss();
    blame(how + last_words_of(exit));
  }
}

JobRun::Lost JobRun::node_lost(const std::string& node_id, const std::string& reason) {
  Lost lost;
  for (Process& process : processes_) {
    if (process.record.node_id != node_id || process.gone) continue;
    if (!state_.is_ending() && !process.ended_well()) {
      state_.note_loss();
      blame("node " + process.record.node + " was lost (" + reason + ") and " + describe(process) + " with it");
    }
    if (process.actor) lost.processes.push_back(process.actor.address().process);
    let_go(process);
    lost.changes.push_back(change::PutWorker{record_of(process)});
  }
  return lost;
}

/// A broken link alone is no failure: a process that is gone is reported by its agent, or its node is lost.
void JobRun::process_lost(std::uint64_t number) {
  for (Process& process : processes_) {
    if (!process.actor || process.actor.address().process != number) continue;
    ++process.links_lost;
    if (process.gone || process.end || state_.is_ending()) continue;
    process.link_broken = services_.clock.now();
  }
}

void JobRun::gpus_lost(const std::string& node_id, const std::vector<protocol::Gpu>& gpus) {
  for (const Process& process : processes_) {
    if (process.record.node_id != node_id || process.ended_well()) continue;
    for (const auto& share : process.record.gpus) {
      if (std::ranges::find(gpus, share.uuid, &protocol::Gpu::uuid) != gpus.end()) state_.note_lost_gpu(share.uuid);
    }
  }
  changed_.notify();
}

bool JobRun::comes_back() const {
  return state_.has_failed() && state_.has_lost() && !state_.stop_requested() && !state_.abandoned() &&
         job_.restarts < spec_.restarts_max;
}

void JobRun::watch_links(runtime::Clock::duration late) {
  const auto now = services_.clock.now();
  for (Process& process : processes_) {
    if (!process.link_broken) continue;
    process.link_broken = std::min(now, *process.link_broken + late);
    if (process.gone || process.end || state_.is_ending()) continue;
    if (now - *process.link_broken <= std::chrono::milliseconds(NodeTable::lease_milliseconds)) continue;
    state_.note_loss();
    show_sign("the connection to " + describe(process) + " broke and did not come back");
  }
}

net::awaitable<Result<std::optional<WorkerLogs::Unpublished>>> JobRun::output(std::string worker_id,
                                                                              std::uint64_t offset, std::string text) {
  const Process* process = processes_.find(worker_id);
  if (process == nullptr) co_return std::nullopt;
  co_return co_await logs_.append(process->record.rank, offset, std::move(text));
}

// The state and its records.

net::awaitable<void> JobRun::enter(Step step) {
  const bool phase_is_new = state_.enter(step);
  job_.phase = state_.phase();
  co_await commit_step(phase_is_new);
}

/// Commits where the attempt is and what its processes are, as one change. A store that cannot take it (its disk is
/// full) does not end the training: later changes contain what this one did.
net::awaitable<void> JobRun::commit_step(bool phase_is_new) {
  reports_.note_published();
  std::vector<Change> changes = worker_changes();
  changes.push_back(change::PutJob{job_});
  changes.push_back(change::PutFence{attempt_});
  if (phase_is_new) changes.push_back(phase_event(services_, job_));
  changes.push_back(job_item(job_));
  co_await record(std::move(changes));
}

void JobRun::show_sign(std::string what) {
  state_.show_sign(std::move(what));
  changed_.notify();
}

void JobRun::blame(std::string cause) {
  state_.blame(std::move(cause));
  changed_.notify();
}

void JobRun::let_go(Process& process) {
  processes_.let_go(process);
  changed_.notify();
}

net::awaitable<void> JobRun::record(std::vector<Change> changes) {
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) spdlog::error("job {}: {}", job_.id, committed.error().message());
}

void JobRun::note(Severity severity, std::string kind, std::string message, const Process* process) {
  auto noted = services_.event(job_.id, severity, std::move(kind), std::move(message));
  std::vector<Change> changes;
  if (process != nullptr) {
    noted.event.node = process->record.node;
    noted.event.worker = process->record.rank;
    changes.push_back(change::PutWorker{record_of(*process)});
  }
  changes.push_back(std::move(noted));
  records_.spawn("record", record(std::move(changes)));
}

/// The steps completed by all workers, according to their reports, to what they go on from and to their TrainingEnd.
std::uint64_t JobRun::steps_done() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Process& process : processes_) {
    if (process.record.role != protocol::Role::worker) continue;
    least = std::min(least, std::max(reports_.figures().step_of(process.record.rank), process.record.step));
  }
  return least;
}

bool JobRun::all_steps_done() const { return job_.steps_total > 0 && steps_done() >= job_.steps_total; }

/// From the processes of this attempt, since their links stand.
std::uint64_t JobRun::bytes_received() const {
  std::uint64_t bytes = 0;
  for (const auto& peer : services_.system->peers()) {
    if (peer.account == account()) bytes += peer.bytes_received;
  }
  return bytes;
}

WorkerRecord JobRun::record_of(const Process& process) const {
  WorkerRecord record = process.record;
  record.step = std::max(record.step, reports_.figures().step_of(record.rank));
  record.figures = reports_.figures().figures_of(record.rank);
  return record;
}

std::vector<WorkerRecord> JobRun::workers() const {
  std::vector<WorkerRecord> result;
  for (const Process& process : processes_) result.push_back(record_of(process));
  return result;
}

std::vector<Change> JobRun::worker_changes() const {
  std::vector<Change> changes;
  for (auto& worker : workers()) changes.push_back(change::PutWorker{std::move(worker)});
  return changes;
}

std::vector<Change> JobRun::last_changes() const {
  std::vector<Change> changes = worker_changes();
  changes.insert(changes.end(), lost_.begin(), lost_.end());
  return changes;
}

}  // namespace weir::cluster
