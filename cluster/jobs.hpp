#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/job_queue.hpp"
#include "cluster/job_run.hpp"
#include "cluster/node_table.hpp"
#include "cluster/services.hpp"
#include "protocol/node.hpp"
#include "protocol/training.hpp"
#include "runtime/task_group.hpp"

namespace weir::cluster {

/// All jobs of the head: accepts them, queues them (JobQueue determines the order), places them when there is room, and
/// runs them to their end. Used on the head's strand.
class Jobs {
 public:
  Jobs(Services& services, NodeTable& nodes)
      : services_(services), nodes_(nodes), tasks_(services.strand, "jobs"), notices_(services.strand, "jobs") {}

  /// Restores the jobs of an earlier run of the head: jobs that waited, be it between two attempts, wait again; running
  /// ones wait for another attempt if they may have one. If not they have failed, or are stopped if they were to stop.
  /// Ends the removal of jobs that it finds half done.
  net::awaitable<Result<void>> recover();
  /// Starts no more jobs and abandons the running ones (JobRun::abandon).
  net::awaitable<void> stop();

  net::awaitable<Result<Submission>> submit(nlohmann::json spec, std::string idempotency_key);
  net::awaitable<Result<Validation>> validate(nlohmann::json spec);
  net::awaitable<Result<JobRecord>> stop_job(std::string id);
  net::awaitable<Result<void>> remove_job(std::string id);

  /// Keeps what workers have printed. What the log of one refuses holds up nobody and is dropped. Fails with: exhausted
  /// (disk full), and the errors of the store; then the batch may be repeated.
  net::awaitable<Result<void>> output(protocol::OutputBatch batch);

  /// Schedules a pass that places the jobs that fit. Calls in the same turn of the strand share one pass. To be called
  /// whenever room, nodes or jobs have changed.
  void dispatch();

  /// Sets the reason of jobs that wait. It is not part of the committed job, since it changes with every node and every
  /// other job.
  void explain_waiting(std::span<JobRecord> jobs) const;

  /// The job that a worker belongs to; null if the worker is not wanted any more. Looks at all jobs that run, unless
  /// the job is given.
  std::shared_ptr<JobRun> run_of_worker(const std::string& worker_id) const;
  std::shared_ptr<JobRun> run_of_worker(const std::string& job_id, const std::string& worker_id) const;
  std::shared_ptr<JobRun> run_of_job(const std::string& job_id) const;
  const std::map<std::string, std::shared_ptr<JobRun>>& running() const { return runs_; }

 private:
  /// Of the directory of a job that is being removed.
  static constexpr std::string_view removed_suffix = ".removed";

  struct Waiting {
    JobRun::Plan plan;
    std::string told;  ///< the reason that was last put on the stream
  };
  struct Checked {
    std::vector<protocol::Problem> problems;
    std::vector<Warning> warnings;
    nlohmann::json spec;
    JobRun::Plan plan;
    std::optional<protocol::TrainingShape> shape;      ///< empty if unknown
    std::optional<std::filesystem::path> resume_from;  ///< the checkpoint of another job that it goes on from
  };
  /// A job that ran when the head was killed.
  struct Interrupted {
    JobRecord job;
    std::optional<JobRun::Ending> ending;  ///< nothing: it waits for another attempt
    std::vector<Change> changes;           ///< its workers have ended, and it waits if it does
  };

  /// Normalizes and checks a spec, also against the checkpoint that it resumes from.
  net::awaitable<Result<Checked>> check(nlohmann::json spec);
  Result<Checked> check_alone(nlohmann::json spec) const;
  net::awaitable<Result<std::vector<protocol::Problem>>> find_checkpoint(Checked& checked);
  net::awaitable<Result<Submission>> earlier_submission(std::string key, std::string body_hash);
  net::awaitable<void> dispatch_pass();
  bool awaits_nodes() const;
  net::awaitable<void> tell_reasons();
  net::awaitable<void> drive(std::shared_ptr<JobRun> run);
  std::optional<std::filesystem::path> resume_file_of(const JobRecord& job, const protocol::JobSpec& spec,
                                                      std::span<const std::uint64_t> checkpoints) const;
  static void begin_restart(JobRecord& job, std::string reason);
  std::vector<Change> changes_of_restart(const JobRun::Plan& plan) const;
  std::vector<Change> changes_of_end(JobRecord job, JobRun::Ending ending) const;
  net::awaitable<bool> end(JobRecord job, JobRun::Ending ending, std::vector<Change> more);
  net::awaitable<Result<JobRecord>> commit_stop(JobRecord job, bool phase_is_new);
  net::awaitable<void> record_owed(std::string id);
  net::awaitable<Result<void>> remove_ended(std::string id);
  net::awaitable<void> move_files(std::filesystem::path from, std::filesystem::path to);
  net::awaitable<void> remove_files(std::filesystem::path dir);
  net::awaitable<void> remove_resume_file(std::string id);
  void enqueue(JobRun::Plan plan);

  // Of recover().
  net::awaitable<Result<void>> take_up_interrupted(JobRecord job, std::vector<Interrupted>& interrupted);
  net::awaitable<Result<void>> queue_again(JobRecord job);
  net::awaitable<Result<JobRun::Plan>> plan_again(JobRecord job);
  net::awaitable<Result<Figures::Past>> past_of(const JobRecord& job) const;
  net::awaitable<void> end_waiting(JobRecord job, JobRun::Ending ending, std::vector<Change> more);
  net::awaitable<Result<void>> remove_leftovers(std::string id);
  net::awaitable<Result<void>> end_removals();
  net::awaitable<void> end_waiting_for_nodes();

  Services& services_;
  NodeTable& nodes_;
  JobQueue queue_;
  std::map<std::string, Waiting> waiting_;  ///< the jobs in the queue, by job id
  std::map<std::string, std::shared_ptr<JobRun>> runs_;
  std::map<std::string, JobRecord> recovering_;      ///< of jobs whose restart is being committed, what is committed
  std::set<std::string> ending_;                     ///< jobs in runs_ whose end is being committed
  std::map<std::string, std::vector<Change>> owed_;  ///< what the store has refused, of jobs that wait for a restart
  std::set<std::string> removing_;                   ///< jobs that remove_job() is about to remove
  std::uint64_t next_order_ = 1;
  bool stopping_ = false;
  bool pass_is_due_ = false;      ///< dispatch_pass() is spawned and has not begun
  bool reasons_are_due_ = false;  ///< tell_reasons() is spawned and has not begun
  runtime::Clock::time_point told_{};
  runtime::Clock::time_point nodes_due_{};  ///< how long after a restart of the head nodes are waited for
  runtime::TaskGroup tasks_;                ///< tasks that must run to their end
  runtime::TaskGroup notices_;              ///< tasks that may be cancelled
};

}  // namespace weir::cluster
