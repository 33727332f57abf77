#include "cluster/jobs.hpp"

#include <openssl/sha.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/errc.hpp"
#include "base/hmac.hpp"
#include "cluster/forecast.hpp"
#include "cluster/job_files.hpp"
#include "cluster/resumption.hpp"
#include "cluster/run_on.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::size_t key_length_max = 255;
constexpr auto reasons_interval = 1s;         // between two publications of reasons
constexpr std::size_t reasons_told_max = 64;  // the first jobs of the queue, for subscribers of all jobs

const Error job_of_key_goes{Errc::exhausted, "the job of this key is being deleted; ask again"};

std::string hash_of(const json& body) {
  const std::string text = to_text(body);
  Digest digest{};
  static_assert(sizeof digest == SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return hex(digest);
}

Gang gang_of(const protocol::JobSpec& spec) {
  Gang gang{.groups = {}, .placement = spec.resources.placement};
  for (const auto& group : spec.resources.groups) {
    gang.groups.push_back({group.count, group.each, spec.resources.labels, group.role});
  }
  return gang;
}

/// A spec that another version may have stored, with the defaults of this one; as it is if it is not valid any more.
json with_defaults(const json& stored, const json& catalog) {
  json spec = stored;
  return protocol::normalize_job_spec(spec, catalog).empty() ? spec : stored;
}

/// Where the gang would be placed now, or why it does not fit.
json placement_json(const protocol::JobSpec& spec, const std::vector<NodeOffer>& offers) {
  const Gang gang = gang_of(spec);
  const auto placement = place(gang, offers);
  std::unordered_map<std::string_view, std::string_view> names;
  for (const auto& offer : offers) names.emplace(offer.id, offer.name);
  json workers = json::array();
  for (const auto& node : placement.nodes) {
    const auto rank = static_cast<std::uint32_t>(workers.size());
    const auto role = protocol::role_of_rank(spec.resources.groups, rank).role;
    workers.push_back({{"rank", rank}, {"role", to_string(role)}, {"node", names.at(node)}});
  }
  return {{"fits", placement.fits()},
          {"reason", placement.fits() ? json(nullptr) : json(explain(gang, offers))},
          {"workers", std::move(workers)}};
}

}  // namespace

net::awaitable<void> Jobs::stop() {
  stopping_ = true;
  for (const auto& [id, run] : runs_) run->abandon();
  co_await notices_.stop(services_.clock, 0s);
  co_await tasks_.join();
}

net::awaitable<Result<Jobs::Checked>> Jobs::check(json spec) {
  auto checked = check_alone(std::move(spec));
  if (!checked || !checked->problems.empty() || !checked->plan.spec.resume_from) co_return checked;
  auto problems = co_await find_checkpoint(*checked);
  if (!problems) co_return problems.error();
  checked->problems = std::move(*problems);
  co_return checked;
}

Result<Jobs::Checked> Jobs::check_alone(json spec) const {
  Checked checked;
  checked.problems = protocol::normalize_job_spec(spec, services_.options.catalog);
  checked.spec = std::move(spec);
  if (!checked.problems.empty()) return checked;
  auto typed = protocol::parse_job_spec(checked.spec);
  if (!typed) return typed.error();
  checked.plan.spec = std::move(*typed);
  if (services_.options.shape_of) {
    auto shape = services_.options.shape_of(checked.plan.spec);
    if (!shape) {
      checked.problems.push_back({"/model", shape.error().message()});
      return checked;
    }
    checked.problems = problems_of(checked.plan.spec, *shape);
    if (!checked.problems.empty()) return checked;
    checked.warnings = warnings_of(checked.plan.spec, *shape, services_.options.catalog);
    checked.shape = std::move(*shape);
  }
  return checked;
}

/// Adds what the checkpoint has to do with the job: the file, and warnings. Returns what is wrong with it.
net::awaitable<Result<std::vector<protocol::Problem>>> Jobs::find_checkpoint(Checked& checked) {
  const auto refusal = [](std::string message) {
    return std::vector<protocol::Problem>{{"/checkpoint/resume_from/job", std::move(message)}};
  };
  const auto& from = *checked.plan.spec.resume_from;
  auto job = co_await services_.store->job(from.job_id);
  if (!job) co_return job.error();
  auto checkpoints = co_await services_.store->checkpoints(from.job_id);
  if (!checkpoints) co_return checkpoints.error();
  if (!*job) co_return refusal("there is no job " + from.job_id);
  if (checkpoints->empty()) co_return refusal("job " + from.job_id + " has no checkpoint");
  const json before = with_defaults((*job)->spec, services_.options.catalog);
  auto parsed = protocol::parse_job_spec(before);
  if (!parsed) co_return parsed.error();
  std::optional<protocol::TrainingShape> shape;
  if (services_.options.shape_of) {
    if (auto known = services_.options.shape_of(*parsed)) shape = std::move(*known);
  }
  const KnownJob here{checked.spec, checked.plan.spec, checked.shape ? &*checked.shape : nullptr};
  const Origin origin{from.job_id, {before, *parsed, shape ? &*shape : nullptr}, *checkpoints};
  auto warnings = warnings_of_resuming(here, origin, services_.options.catalog);
  std::ranges::move(warnings, std::back_inserter(checked.warnings));
  const std::uint64_t step = from.step.value_or(checkpoints->back().step);
  checked.resume_from = job_files::checkpoint_file(services_.job_dir(from.job_id), step);
  co_return problems_of_resuming(here, origin, services_.options.catalog);
}

net::awaitable<Result<Submission>> Jobs::submit(json spec, std::string idempotency_key) {
  if (idempotency_key.size() > key_length_max) {
    co_return Error{Errc::invalid_argument, "an idempotency key has at most 255 characters"};
  }
  const std::string body_hash = hash_of(spec);
  if (!idempotency_key.empty()) {
    auto earlier = co_await earlier_submission(idempotency_key, body_hash);
    if (!earlier || earlier->job) co_return earlier;
  }
  auto checked = co_await check(std::move(spec));
  if (!checked) co_return checked.error();
  Submission submission;
  if (!checked->problems.empty()) {
    submission.problems = std::move(checked->problems);
    co_return submission;
  }
  JobRecord job;
  job.id = services_.new_id();
  job.name = checked->plan.spec.name;
  job.spec = std::move(checked->spec);
  job.priority = checked->plan.spec.resources.priority;
  job.created_at = services_.now();
  checked->plan.order = next_order_++;
  if (checked->resume_from) {
    auto keep = [from = *checked->resume_from, dir = services_.job_dir(job.id)] {
      return job_files::keep_for_resume(from, dir);
    };
    const auto kept = co_await run_on(services_.files, std::move(keep));
    if (!kept) co_await remove_files(services_.job_dir(job.id));
    if (!kept && kept.error().code == Errc::not_found) {  // it was removed after check() had seen it
      submission.problems.push_back({"/checkpoint/resume_from", kept.error().message()});
      co_return submission;
    }
    if (!kept) co_return kept.error();
    checked->plan.resume_file = job_files::resume_file(services_.job_dir(job.id));
  }
  std::vector<Change> changes;
  changes.push_back(change::AddJob{job, idempotency_key, body_hash});
  changes.push_back(services_.event(job.id, Severity::info, "job.submitted", "submitted as \"" + job.name + "\""));
  changes.push_back(job_item(job));
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) {
    co_await remove_files(services_.job_dir(job.id));
    const bool was_slower = committed.error().code == Errc::conflict && !idempotency_key.empty();
    if (!was_slower) co_return committed.error();
    auto earlier = co_await earlier_submission(idempotency_key, body_hash);  // with the same key
    if (earlier && !earlier->job) co_return job_of_key_goes;
    co_return earlier;
  }
  submission.job = job;
  submission.created = true;
  submission.warnings = std::move(checked->warnings);
  checked->plan.job = std::move(job);
  enqueue(std::move(checked->plan));
  explain_waiting({&*submission.job, 1});
  dispatch();
  co_return submission;
}

/// Returns a submission without a job if the key is new.
net::awaitable<Result<Submission>> Jobs::earlier_submission(std::string key, std::string body_hash) {
  auto use = co_await services_.store->idempotency_key(key);
  if (!use) co_return use.error();
  Submission submission;
  if (!*use) co_return submission;
  if ((*use)->body_hash != body_hash) {
    co_return Error{Errc::conflict,
                    "the idempotency key was used for another body, which became job " + (*use)->job_id};
  }
  auto job = co_await services_.store->job((*use)->job_id);
  if (!job) co_return job.error();
  submission.job = std::move(*job);
  if (!submission.job) co_return job_of_key_goes;
  explain_waiting({&*submission.job, 1});
  if (auto checked = co_await check(submission.job->spec)) submission.warnings = std::move(checked->warnings);
  co_return submission;
}

net::awaitable<Result<Validation>> Jobs::validate(json spec) {
  auto checked = co_await check(std::move(spec));
  if (!checked) co_return checked.error();
  Validation validation;
  validation.problems = std::move(checked->problems);
  if (!validation.problems.empty()) co_return validation;
  validation.placement = placement_json(checked->plan.spec, nodes_.offers());
  validation.round =
      round_cost(checked->plan.spec, checked->shape ? &*checked->shape : nullptr, services_.options.catalog);
  validation.warnings = std::move(checked->warnings);
  validation.spec = std::move(checked->spec);
  co_return validation;
}

net::awaitable<Result<JobRecord>> Jobs::stop_job(std::string id) {
  if (auto waiting = waiting_.extract(id)) {
    queue_.remove(id);
    auto plan = std::move(waiting.mapped().plan);
    JobRun::Ending ending{JobState::stopped, "stopped on request while it waited"};
    std::vector<Change> changes = changes_of_end(plan.job, std::move(ending));
    if (const auto owed = owed_.find(id); owed != owed_.end()) {
      changes.insert(changes.begin(), owed->second.begin(), owed->second.end());
    }
    auto committed = co_await services_.store->commit(std::move(changes));
    if (committed) {
      owed_.erase(id);
      if (plan.spec.resume_from) co_await remove_resume_file(id);
    } else {
      enqueue(std::move(plan));
    }
    dispatch();
    if (!committed) co_return committed.error();
  }
  const auto run = run_of_job(id);
  if (run && !ending_.contains(id)) {
    const bool phase_is_new = run->request_stop();
    const auto recovers = recovering_.find(id);
    JobRecord job = recovers != recovering_.end() ? recovers->second : run->job();
    co_return co_await commit_stop(std::move(job), phase_is_new);
  }
  auto job = co_await services_.store->job(id);
  if (!job) co_return job.error();
  if (!*job) co_return Error{Errc::not_found, "there is no job " + id};
  // What is committed of it now could undo its end, which is on its way.
  if (!terminal((*job)->state)) co_return Error{Errc::exhausted, "job " + id + " is being ended; ask again"};
  co_return std::move(**job);
}

/// For a job that runs, or whose restart is being committed: it stops in any case, but if the head died before that is
/// in the store, the next one would run the job again. Only a stop that is committed may be acknowledged.
net::awaitable<Result<JobRecord>> Jobs::commit_stop(JobRecord job, bool phase_is_new) {
  job.phase = JobPhase::stopping;
  std::vector<Change> changes;
  changes.push_back(change::PutJob{job});
  if (phase_is_new) changes.push_back(phase_event(services_, job));
  changes.push_back(job_item(job));
  const auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) co_return committed.error().within("job " + job.id + " stops, which is not recorded yet");
  co_return job;
}

net::awaitable<Result<void>> Jobs::output(protocol::OutputBatch batch) {
  Result<void> taken;
  std::vector<std::pair<std::shared_ptr<JobRun>, WorkerLogs::Unpublished>> logs;
  for (auto& chunk : batch.chunks) {
    const auto run = run_of_worker(chunk.job_id, chunk.worker_id);
    if (!run) continue;  // its job has ended: nobody reads it any more
    auto kept = co_await run->output(chunk.worker_id, chunk.offset, std::move(chunk.text));
    if (!kept) {
      taken = kept.error();
    } else if (*kept) {
      logs.emplace_back(run, std::move(**kept));
    }
  }
  // Committed as one: on a disk that is slow to write, a commit for each of many workers would take longer than a node
  // waits with the last output of a process that has ended.
  std::vector<Change> changes;
  for (auto& [run, log] : logs) {
    const auto& id = run->job().id;
    const bool may_be_removed = !runs_.contains(id) && !waiting_.contains(id);  // it has ended
    if (!may_be_removed) changes.push_back(std::move(log.item));
  }
  if (changes.empty()) co_return taken;
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed) co_return committed;
  for (const auto& [run, log] : logs) run->output_published(log.rank, log.end);
  co_return taken;
}

void Jobs::enqueue(JobRun::Plan plan) {
  queue_.add(plan.job.id, {plan.job.priority, plan.order}, gang_of(plan.spec));
  const auto id = plan.job.id;
  waiting_[id].plan = std::move(plan);
}

void Jobs::dispatch() {
  if (!std::exchange(pass_is_due_, true)) tasks_.spawn("dispatch", dispatch_pass());
}

net::awaitable<void> Jobs::dispatch_pass() {
  co_await net::post(services_.strand, net::use_awaitable);  // after everything else in this turn of the strand
  pass_is_due_ = false;
  if (stopping_) co_return;
  std::optional<JobQueue::Turn> first_back;
  for (const auto& [id, run] : runs_) {
    if (!run->comes_back()) continue;
    const JobQueue::Turn turn{run->job().priority, run->order()};
    if (!first_back || turn < *first_back) first_back = turn;
  }
  const bool holds = awaits_nodes();
  while (!holds) {
    auto start = queue_.next(nodes_.offers(), nodes_.growth(), first_back);
    if (!start) break;
    auto waiting = waiting_.extract(start->job_id);
    owed_.erase(start->job_id);
    auto run = std::make_shared<JobRun>(services_, nodes_, std::move(waiting.mapped().plan), start->nodes,
                                        [this] { dispatch(); });
    runs_[start->job_id] = run;
    tasks_.spawn("job " + start->job_id, drive(std::move(run)));
  }
  if (queue_.size() > 0 && !std::exchange(reasons_are_due_, true)) notices_.spawn("tell reasons", tell_reasons());
}

/// Whether the head has restarted a moment ago, and a job that ran waits while not all nodes are back. It might not fit
/// those that are, and jobs behind it would take what was its room.
bool Jobs::awaits_nodes() const {
  if (services_.clock.now() >= nodes_due_ || nodes_.are_back()) return false;
  return std::ranges::any_of(waiting_, [](const auto& one) { return one.second.plan.job.state == JobState::running; });
}

void Jobs::explain_waiting(std::span<JobRecord> jobs) const {
  queue_.fill_reasons(jobs, nodes_.offers());
  if (!awaits_nodes()) return;
  for (JobRecord& job : jobs) {
    if (waiting_.contains(job.id)) job.reason = "waits for nodes to join again after the head's restart";
  }
}

/// Publishes the jobs whose reason to wait has changed, if they have subscribers. The reason is not committed, so the
/// items are transient: later subscribers read it with the job.
net::awaitable<void> Jobs::tell_reasons() {
  if (const auto next = told_ + reasons_interval; services_.clock.now() < next) {
    if (!co_await services_.clock.sleep_for(next - services_.clock.now())) co_return;
  }
  reasons_are_due_ = false;
  told_ = services_.clock.now();
  auto [all, ids] = services_.stream->watched_jobs();
  std::erase_if(ids, [this](const std::string& id) { return !waiting_.contains(id); });
  if (all) {
    for (auto& id : queue_.first(reasons_told_max)) ids.insert(std::move(id));
  }
  std::vector<JobRecord> jobs;
  for (const auto& id : ids) jobs.push_back(waiting_.at(id).plan.job);
  explain_waiting(jobs);
  std::vector<StreamItem> items;
  for (const auto& job : jobs) {
    std::string& told = waiting_.at(job.id).told;
    if (std::exchange(told, job.reason) != job.reason) {
      items.push_back({0, StreamKind::job, job.id, to_text(to_json(job))});
    }
  }
  services_.stream->publish(items);
}

std::shared_ptr<JobRun> Jobs::run_of_worker(const std::string& worker_id) const {
  for (const auto& [id, run] : runs_) {
    if (run->has_worker(worker_id)) return run;
  }
  return nullptr;
}

std::shared_ptr<JobRun> Jobs::run_of_worker(const std::string& job_id, const std::string& worker_id) const {
  auto run = run_of_job(job_id);
  return run && run->has_worker(worker_id) ? run : nullptr;
}

std::shared_ptr<JobRun> Jobs::run_of_job(const std::string& job_id) const {
  const auto found = runs_.find(job_id);
  return found == runs_.end() ? nullptr : found->second;
}

}  // namespace weir::cluster
