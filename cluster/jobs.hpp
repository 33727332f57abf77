#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/job_run.hpp"
#include "cluster/node_table.hpp"
#include "cluster/services.hpp"
#include "protocol/training.hpp"
#include "runtime/task_group.hpp"

namespace weir::cluster {

/// All jobs of the head: takes them in, queues them, places them when there is room, sees them through to their end.
/// Jobs of higher priority go first, then the older. A job that only waits for room lets no later one overtake it; one
/// that does not fit the cluster at all holds up nobody. On the head's strand.
class Jobs {
 public:
  Jobs(Services& services, NodeTable& nodes) : services_(services), nodes_(nodes), tasks_(services.strand, "jobs") {}

  /// Takes up where an earlier run of the head ended: waiting jobs wait again, those that ran have failed.
  net::awaitable<Result<void>> recover();
  /// No job begins any more; those that run are left to the nodes.
  net::awaitable<void> stop();

  net::awaitable<Result<Submission>> submit(nlohmann::json spec, std::string idempotency_key);
  net::awaitable<Result<Validation>> validate(nlohmann::json spec);
  net::awaitable<Result<JobRecord>> stop_job(std::string id);
  net::awaitable<Result<void>> remove_job(std::string id);

  /// Places what fits now. Called whenever room, nodes or jobs have changed.
  void dispatch();

  /// The job that a worker belongs to, or none: nobody waits for it any more.
  std::shared_ptr<JobRun> run_of_worker(const std::string& worker_id) const;
  std::shared_ptr<JobRun> run_of_job(const std::string& job_id) const;
  const std::map<std::string, std::shared_ptr<JobRun>>& running() const { return runs_; }
  std::uint32_t active() const { return static_cast<std::uint32_t>(runs_.size() + queue_.size()); }

 private:
  struct Queued {
    JobRun::Plan plan;
    std::uint64_t order = 0;  ///< of submission
  };
  struct Checked {
    std::vector<protocol::Problem> problems;
    nlohmann::json spec;
    JobRun::Plan plan;
  };

  /// Normalizes a spec and looks its checkpoint up.
  net::awaitable<Result<Checked>> check(nlohmann::json spec);
  net::awaitable<Result<std::vector<protocol::Problem>>> find_checkpoint(Checked& checked);
  net::awaitable<Result<Submission>> earlier_submission(std::string key, std::string body_hash);
  net::awaitable<void> drive(std::shared_ptr<JobRun> run, std::uint64_t order);
  net::awaitable<void> end(JobRecord job, JobRun::Ending ending, std::vector<Change> more);
  net::awaitable<void> record(std::vector<Change> changes);
  void enqueue(Queued queued);
  void explain_waiting(Queued& queued, const std::string& reason);
  change::AddEvent event(const JobRecord& job, Severity severity, std::string kind, std::string message) const;

  Services& services_;
  NodeTable& nodes_;
  std::vector<Queued> queue_;  ///< in the order of their turns
  std::map<std::string, std::shared_ptr<JobRun>> runs_;
  std::uint64_t next_order_ = 1;
  bool stopping_ = false;
  bool dispatching_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace weir::cluster
