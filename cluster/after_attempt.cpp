// What becomes of a job when an attempt of it is over: another one, or its end.

#include <spdlog/spdlog.h>

#include <string>

#include "base/errc.hpp"
#include "cluster/job_files.hpp"
#include "cluster/jobs.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto retry_interval = 1s;  // between commits of a job's end while the disk is full

}  // namespace

net::awaitable<void> Jobs::drive(std::shared_ptr<JobRun> run) {
  JobRun::Ending ending = co_await run->run();
  if (run->abandoned() && ending.state == JobState::failed) {
    runs_.erase(run->job().id);
    co_return;  // its state stays RUNNING until recover() at the head's next start
  }
  JobRecord job = run->job();
  std::vector<Change> workers = run->last_changes();
  if (ending.state != JobState::failed || !run->comes_back() || stopping_) {
    ending_.insert(job.id);
    const bool recorded = co_await end(job, std::move(ending), std::move(workers));
    ending_.erase(job.id);
    runs_.erase(job.id);
    dispatch();
    if (recorded && run->spec().resume_from) co_await remove_resume_file(job.id);
    co_return;
  }
  begin_restart(job, std::move(ending.reason));
  JobRun::Plan plan;
  plan.job = job;
  plan.spec = run->spec();
  plan.order = run->order();
  plan.checkpoints = run->checkpoints();
  plan.past = run->past();
  plan.resume_file = resume_file_of(job, plan.spec, plan.checkpoints);
  for (auto& change : changes_of_restart(plan)) workers.push_back(std::move(change));
  recovering_[job.id] = job;
  const auto committed = co_await services_.store->commit(workers);
  recovering_.erase(job.id);
  if (committed) workers.clear();
  runs_.erase(job.id);
  dispatch();
  if (run->stop_requested()) {  // requested meanwhile
    JobRun::Ending stopped{JobState::stopped, "stopped on request while it recovered"};
    const bool recorded = co_await end(std::move(job), std::move(stopped), std::move(workers));
    if (recorded && plan.spec.resume_from) co_await remove_resume_file(plan.job.id);
  } else {
    enqueue(std::move(plan));
    if (!committed) {
      spdlog::error("job {} recovers, which cannot be recorded yet: {}", job.id, committed.error().message());
      owed_[job.id] = std::move(workers);
      tasks_.spawn("record recovery", record_owed(job.id));
    }
  }
}

/// Repeats the commit of what owed_ has of a job, as long as the job waits: if the head died before, its next start
/// would count one more restart, or have none left. What follows makes up for it.
net::awaitable<void> Jobs::record_owed(std::string id) {
  for (;;) {
    co_await services_.clock.sleep_for(retry_interval);
    const auto owed = owed_.find(id);
    if (owed == owed_.end() || stopping_) co_return;
    if (!waiting_.contains(id)) continue;  // it is being stopped, which may fail
    const auto committed = co_await services_.store->commit(owed->second);
    if (!committed && committed.error().code != Errc::cancelled) continue;
    owed_.erase(id);
    co_return;
  }
}

/// From where the next attempt of a job goes on; nothing: from its beginning.
std::optional<std::filesystem::path> Jobs::resume_file_of(const JobRecord& job, const protocol::JobSpec& spec,
                                                          std::span<const std::uint64_t> checkpoints) const {
  const auto dir = services_.job_dir(job.id);
  if (!checkpoints.empty()) return job_files::checkpoint_file(dir, checkpoints.back());
  return spec.resume_from ? std::optional(job_files::resume_file(dir)) : std::nullopt;
}

void Jobs::begin_restart(JobRecord& job, std::string reason) {
  ++job.restarts;
  job.phase = JobPhase::recovering;
  job.reason = std::move(reason);
  job.summary["samples_per_second"] = nullptr;  // nobody trains until the next attempt does
}

/// For a job that begin_restart() has changed.
std::vector<Change> Jobs::changes_of_restart(const JobRun::Plan& plan) const {
  const JobRecord& job = plan.job;
  std::string from = "from its beginning";
  if (!plan.checkpoints.empty()) {
    from = "from the checkpoint at step " + std::to_string(plan.checkpoints.back());
  } else if (plan.resume_file) {
    from = "from the checkpoint of job " + plan.spec.resume_from->job_id + " that it began with";
  }
  const std::string message = "restart " + std::to_string(job.restarts) + " of " +
                              std::to_string(plan.spec.restarts_max) + " " + from + ": " + job.reason;
  std::vector<Change> changes;
  changes.push_back(change::PutJob{job});
  changes.push_back(services_.event(job.id, Severity::warning, "job.restart", message));
  changes.push_back(job_item(job));
  return changes;
}

std::vector<Change> Jobs::changes_of_end(JobRecord job, JobRun::Ending ending) const {
  job.state = ending.state;
  job.phase = JobPhase::none;
  job.reason = std::move(ending.reason);
  job.ended_at = services_.now();
  const auto severity = job.state == JobState::failed ? Severity::error : Severity::info;
  const std::string message = std::string(to_string(job.state)) + (job.reason.empty() ? "" : ": " + job.reason);
  std::vector<Change> changes;
  changes.push_back(change::PutJob{job});
  changes.push_back(services_.event(job.id, severity, "job.state", message));
  changes.push_back(job_item(job));
  changes.push_back(job_item(job, StreamKind::job_end));
  return changes;
}

/// Commits the end of a job, and repeats that as long as the disk is full. Returns false if a head that stops could
/// not: the next one finds the job as it was, with its files.
net::awaitable<bool> Jobs::end(JobRecord job, JobRun::Ending ending, std::vector<Change> more) {
  const auto id = job.id;
  for (auto& change : changes_of_end(std::move(job), std::move(ending))) more.push_back(std::move(change));
  for (bool told = false;; told = true) {
    const auto committed = co_await services_.store->commit(more);
    if (committed || committed.error().code == Errc::cancelled || stopping_) co_return committed.has_value();
    if (!told) spdlog::error("job {} has ended, which cannot be recorded yet: {}", id, committed.error().message());
    co_await services_.clock.sleep_for(retry_interval);
  }
}

}  // namespace weir::cluster
