#include <algorithm>
#include <chrono>

#include "base/errc.hpp"
#include "cluster/job_files.hpp"
#include "cluster/jobs.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {
namespace {

/// In which nodes end what they ran, open a link to the new head and join again.
constexpr std::chrono::seconds nodes_limit{15};

}  // namespace

net::awaitable<Result<void>> Jobs::recover() {
  auto unfinished = co_await services_.store->unfinished_jobs();
  if (!unfinished) co_return unfinished.error();
  std::vector<Interrupted> interrupted;
  for (auto& job : *unfinished) {
    if (auto removed = co_await remove_leftovers(job.id); !removed) co_return removed;
    const bool ran = job.state == JobState::running && job.phase != JobPhase::recovering;
    auto done = ran ? co_await take_up_interrupted(std::move(job), interrupted) : co_await queue_again(std::move(job));
    if (!done) co_return done;
  }
  std::vector<Change> changes;
  for (const auto& one : interrupted) {
    changes.insert(changes.end(), one.changes.begin(), one.changes.end());
    if (!one.ending) continue;
    for (auto& change : changes_of_end(one.job, *one.ending)) changes.push_back(std::move(change));
  }
  if (auto committed = co_await services_.store->commit(std::move(changes)); !committed) {
    if (committed.error().code != Errc::exhausted) co_return committed;
    for (auto& one : interrupted) {  // what has become of them is recorded once there is room
      if (one.ending) {
        tasks_.spawn("end", end_waiting(std::move(one.job), std::move(*one.ending), std::move(one.changes)));
      } else {
        owed_[one.job.id] = std::move(one.changes);
        tasks_.spawn("record recovery", record_owed(one.job.id));
      }
    }
  }
  nodes_due_ = services_.clock.now() + nodes_limit;
  if (awaits_nodes()) notices_.spawn("await nodes", end_waiting_for_nodes());
  co_return co_await end_removals();
}

/// Places jobs once the time for nodes to join again is over.
net::awaitable<void> Jobs::end_waiting_for_nodes() {
  const bool slept = co_await services_.clock.sleep_until(nodes_due_);
  if (slept) dispatch();
}

/// Workers of the attempt that was interrupted may still run. They cannot take part in another one: its secret is a new
/// one, and a node ends what it runs before it takes work of a head that does not know its lease.
net::awaitable<Result<void>> Jobs::take_up_interrupted(JobRecord job, std::vector<Interrupted>& interrupted) {
  auto workers = co_await services_.store->workers(job.id);
  if (!workers) co_return workers.error();
  Interrupted one;
  for (auto& worker : *workers) {
    if (worker.state == WorkerState::exited) continue;
    worker.state = WorkerState::exited;
    worker.ended_at = services_.now();
    one.changes.push_back(change::PutWorker{std::move(worker)});
  }
  const std::string reason = "the head restarted while the job ran";
  if (job.phase == JobPhase::stopping) {
    one.ending = {JobState::stopped, "stopped on request; the head restarted before the job had ended"};
  } else {
    JobRecord again = job;
    begin_restart(again, reason);
    auto plan = co_await plan_again(std::move(again));
    if (!plan && plan.error().code != Errc::unsupported) co_return plan.error();
    if (!plan) {
      one.ending = {JobState::failed, plan.error().context};
    } else if (job.restarts >= plan->spec.restarts_max) {
      one.ending = {JobState::failed, reason};
    } else {
      for (auto& change : changes_of_restart(*plan)) one.changes.push_back(std::move(change));
      enqueue(std::move(*plan));
    }
  }
  one.job = std::move(job);
  interrupted.push_back(std::move(one));
  co_return Result<void>();
}

/// A job that waited for room, for its first attempt or for another one.
net::awaitable<Result<void>> Jobs::queue_again(JobRecord job) {
  auto plan = co_await plan_again(job);
  if (plan) {
    enqueue(std::move(*plan));
  } else if (plan.error().code == Errc::unsupported) {
    JobRun::Ending ending{JobState::failed, plan.error().context};
    std::vector<Change> no_more;
    tasks_.spawn("end", end_waiting(std::move(job), std::move(ending), std::move(no_more)));
  } else {
    co_return plan.error();
  }
  co_return Result<void>();
}

/// What the next attempt of a job begins with. Its spec is the stored one with the defaults of this version, as workers
/// expect it. Fails with: unsupported (the catalog has changed, and the spec is not valid any more), and the errors of
/// the store.
net::awaitable<Result<JobRun::Plan>> Jobs::plan_again(JobRecord job) {
  auto checked = check_alone(job.spec);
  if (!checked) co_return checked.error();
  if (!checked->problems.empty()) {
    const auto& problem = checked->problems.front();
    co_return Error{Errc::unsupported, problem.pointer + " " + problem.message};
  }
  job.spec = std::move(checked->spec);
  auto checkpoints = co_await services_.store->checkpoints(job.id);
  if (!checkpoints) co_return checkpoints.error();
  auto past = co_await past_of(job);
  if (!past) co_return past.error();
  JobRun::Plan& plan = checked->plan;
  plan.order = next_order_++;
  for (const auto& one : *checkpoints) plan.checkpoints.push_back(one.step);
  plan.resume_file = resume_file_of(job, plan.spec, plan.checkpoints);
  plan.past = std::move(*past);
  plan.job = std::move(job);
  co_return std::move(plan);
}

net::awaitable<void> Jobs::end_waiting(JobRecord job, JobRun::Ending ending, std::vector<Change> more) {
  const auto id = job.id;
  const bool recorded = co_await end(std::move(job), std::move(ending), std::move(more));
  if (recorded) co_await remove_resume_file(id);
}

/// Of a job that had not ended: checkpoints that were being written or removed when the head was killed.
net::awaitable<Result<void>> Jobs::remove_leftovers(std::string id) {
  const auto checkpoints = co_await services_.store->checkpoints(id);
  if (!checkpoints) co_return checkpoints.error();
  std::vector<std::uint64_t> steps;
  for (const auto& one : *checkpoints) steps.push_back(one.step);
  auto remove = [dir = services_.job_dir(id), steps = std::move(steps)] {
    job_files::remove_leftovers(dir, steps);
    return true;
  };
  co_await run_on(services_.files, std::move(remove));
  co_return Result<void>();
}

/// The totals of a job's earlier attempts, from its series: each has grown to its greatest value.
net::awaitable<Result<Figures::Past>> Jobs::past_of(const JobRecord& job) const {
  Figures::Past past;
  if (job.restarts == 0) co_return past;
  const auto groups = protocol::read_groups(job.spec);
  if (!groups) co_return groups.error();
  past.ranks.resize(protocol::members_of(*groups));
  for (const auto axis : {MetricAxis::wall, MetricAxis::bytes}) {
    MetricQuery query{.job_id = job.id, .names = {}, .x = axis, .from = {}, .to = {}, .points = 1, .worker = {}};
    const auto series = co_await services_.store->metrics(std::move(query));
    if (!series) co_return series.error();
    for (const auto& one : *series) {
      if (one.points.empty() || (one.worker && *one.worker >= past.ranks.size())) continue;
      const auto& all = one.points.back();
      if (axis == MetricAxis::wall) {
        past.wall_seconds = std::max(past.wall_seconds, all.x);
      } else if (one.worker) {
        auto& rank = past.ranks[*one.worker];
        rank.wire_bytes = std::max(rank.wire_bytes, static_cast<std::uint64_t>(all.x));
        if (Figures::is_count(one.name)) rank.counts[one.name] = all.max;
      }
    }
  }
  co_return past;
}

/// Of jobs that were being removed, submitted or ended when the head was killed. Files of a removed one are removed, or
/// put back if the job is there; a job that was never submitted or that has ended needs no resume_file(). Whatever else
/// the store knows nothing of stays: it may be an older copy.
net::awaitable<Result<void>> Jobs::end_removals() {
  struct Dir {
    std::string name;
    bool resumes = false;   ///< it has a resume_file()
    bool has_more = false;  ///< and something else
  };
  auto list = [dir = services_.job_dir("")] {
    std::vector<Dir> found;
    std::error_code ignored;  // there is no directory before the first job
    for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
      Dir one{.name = entry.path().filename().string()};
      const auto resume_file = job_files::resume_file(entry.path());
      for (const auto& file : std::filesystem::directory_iterator(entry.path(), ignored)) {
        (file.path() == resume_file ? one.resumes : one.has_more) = true;
      }
      found.push_back(std::move(one));
    }
    return found;
  };
  const auto found = co_await run_on(services_.files, std::move(list));
  for (const auto& [name, resumes, has_more] : found) {
    const bool set_aside = name.ends_with(removed_suffix);
    if (!set_aside && !resumes) continue;
    const auto id = set_aside ? name.substr(0, name.size() - removed_suffix.size()) : name;
    const auto job = co_await services_.store->job(id);
    if (!job) co_return job.error();
    if (set_aside && *job) {
      co_await move_files(services_.job_dir(name), services_.job_dir(id));
    } else if (set_aside || (!*job && !has_more)) {
      co_await remove_files(services_.job_dir(name));
    } else if (*job && terminal((*job)->state)) {
      co_await remove_resume_file(id);
    }
  }
  co_return Result<void>();
}

}  // namespace weir::cluster
