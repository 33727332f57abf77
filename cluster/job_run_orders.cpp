// The orders of an attempt to its processes. What fails is noted in its state.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/errc.hpp"
#include "cluster/job_run.hpp"
#include "protocol/acknowledged.hpp"
#include "runtime/actor_ref.hpp"
#include "runtime/actor_system.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using protocol::NodeAgent;
using protocol::Training;
using protocol::Worker;

constexpr auto repeat_pause = 500ms;  // before a call that found no link is repeated

/// Whether an error of a call tells of itself why it failed, and not only that the process is gone or is ended.
bool explains_itself(const Error& error) { return error.code != Errc::peer_lost && error.code != Errc::cancelled; }

}  // namespace

/// Makes a call, and makes it again as long as only its link breaks: a new one may come, and watch_links() decides when
/// none will. That a link broke is told soon after the call has failed; if it is not, the process itself has answered
/// that it has lost somebody.
template <class Call>
std::invoke_result_t<Call&> JobRun::until_answered(const Process& process, Call call) {
  for (;;) {
    const auto links_lost = process.links_lost;
    auto answer = co_await call();
    if (answer || answer.error().code != Errc::peer_lost || process.gone || state_.has_failed()) co_return answer;
    const bool slept = co_await services_.clock.sleep_for(repeat_pause);
    const bool broke = process.link_broken || process.links_lost != links_lost;
    if (!slept || !broke || process.gone || state_.has_failed()) co_return answer;
  }
}

net::awaitable<void> JobRun::launch(Process& process) {
  const NodeTable::Node* node = processes_.node_of(process);
  protocol::WorkerLaunch launch;
  launch.worker_id = process.record.id;
  launch.job_id = job_.id;
  launch.rank = process.record.rank;
  launch.secret = secret_;
  launch.lease_id = node == nullptr ? 0 : node->record.lease_id;
  launch.resources = process.resources;
  launch.gpus = process.record.gpus;
  auto started = co_await process.agent.call<&NodeAgent::start_worker>(launch);
  while (!started && !process.gone &&
         protocol::may_be_repeated(started.error())) {  // NodeTable decides when to give the node up
    if (!co_await services_.clock.sleep_for(repeat_pause)) co_return;
    if (!process.gone) started = co_await process.agent.call<&NodeAgent::start_worker>(launch);
  }
  if (process.gone) co_return;
  if (!started) {
    std::string why = protocol::process_name(process.record.role, process.number) + " could not be started on node " +
                      process.record.node + ": " + started.error().message();
    const bool gpu_has_vanished = started.error().code == Errc::not_found && !process.record.gpus.empty();
    const bool lease_is_over = started.error().code == Errc::conflict;  // which the head is about to notice
    if (gpu_has_vanished || lease_is_over) {
      processes_.doubt_node(process);
      state_.note_loss();
    }
    let_go(process);
    note(Severity::error, "worker.failed", why, &process);
    co_return blame(std::move(why));
  }
  process.record.pid = started->pid;
  process.record.started_at = services_.now();
  note(Severity::info, "worker.started", describe(process) + " was started", &process);
}

net::awaitable<void> JobRun::prepare(Process& process) {
  const std::string type(protocol::actor_type(process.record.role));
  auto create = [&process, type] { return process.actor.call<&Worker::create>(type, type); };
  const auto created = co_await until_answered(process, std::move(create));
  if (!created) co_return call_failed(process, "cannot make the actor " + type, created.error());
  process.trainer = services_.system->ref<Training>({process.actor.address().process}, *created);
  const auto trainer = process.trainer.within(prepare_time());
  auto order = [this, &process, trainer] { return trainer.call<&Training::prepare>(assignment_of(process)); };
  const auto prepared = co_await until_answered(process, std::move(order));
  if (!prepared) co_return call_failed(process, "cannot begin", prepared.error());
  if (process.record.role == protocol::Role::worker && resumed_without_steps(*prepared)) {
    co_return blame("the checkpoint to go on from is of step " + std::to_string(prepared->step) +
                    ", and this job ends after " + std::to_string(prepared->steps_total) +
                    ": ask for more epochs, or more steps, or an earlier checkpoint");
  }
  process.endpoint = prepared->endpoint;
  process.endpoint->rank = process.record.rank;
  process.record.state = WorkerState::running;
  process.record.step = prepared->step;
  job_.steps_total = std::max(job_.steps_total, prepared->steps_total);
  changed_.notify();
}

/// Whether a worker has no steps to make because the job whose checkpoint this one begins with has made all. After the
/// job's own last one only the end is left to be told.
bool JobRun::resumed_without_steps(const protocol::Prepared& prepared) const {
  return resume_from_ && checkpoints_.kept().empty() && prepared.step >= prepared.steps_total;
}

protocol::Assignment JobRun::assignment_of(const Process& process) const {
  const NodeTable::Node* node = processes_.node_of(process);
  protocol::Assignment assignment;
  assignment.job_id = job_.id;
  assignment.spec = spec_text_;
  assignment.rank = process.record.rank;
  assignment.world = world();
  assignment.members = processes_.size();
  assignment.role = process.record.role;
  assignment.attempt = attempt_;
  assignment.group_secret = secret_;
  assignment.listen_host = node == nullptr ? std::string() : node->record.host;
  assignment.resume_bytes = resume_from_ ? resume_from_->bytes_of(process.record.rank) : 0;
  return assignment;
}

net::awaitable<void> JobRun::start(Process& process, std::vector<protocol::RankEndpoint> peers) {
  const auto trainer = process.trainer.within(start_limit);
  auto order = [trainer, peers = std::move(peers)] { return trainer.call<&Training::start>(peers); };
  const auto started = co_await until_answered(process, std::move(order));
  if (!started) co_return call_failed(process, "cannot begin with its peers", started.error());
  process.started = true;
  changed_.notify();
}

/// Repeats the call while the link is broken.
net::awaitable<void> JobRun::ask_to_stop(Process& process) {
  while (!process.gone && !process.end) {
    const auto told = co_await process.trainer.call<&Training::stop>();
    if (told) co_return;
    if (!protocol::may_be_repeated(told.error())) {
      co_return show_sign(describe(process) + ": " + told.error().message());
    }
    if (!co_await services_.clock.sleep_for(repeat_pause)) co_return;
  }
}

/// Repeats the call while the link is broken, until the process or its node is gone.
net::awaitable<void> JobRun::end_process(Process& process, std::chrono::milliseconds grace) {
  const auto milliseconds = static_cast<std::uint32_t>(grace.count());
  while (!process.gone) {
    const auto told = co_await process.agent.call<&NodeAgent::stop_worker>(process.record.id, milliseconds);
    if (told || !co_await services_.clock.sleep_for(repeat_pause)) co_return;
    spdlog::warn("job {}: {} cannot be told to end: {}", job_.id, describe(process), told.error().message());
  }
}

void JobRun::call_failed(const Process& process, const std::string& what, const Error& error) {
  if (error.code == Errc::peer_lost) state_.note_loss();
  std::string text = describe(process) + " " + what + ": " + error.message();
  if (explains_itself(error)) {
    blame(std::move(text));
  } else {
    show_sign(std::move(text));
  }
}

}  // namespace weir::cluster
