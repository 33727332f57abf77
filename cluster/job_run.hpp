#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/figures.hpp"
#include "cluster/job_checkpoints.hpp"
#include "cluster/node_table.hpp"
#include "cluster/plan_events.hpp"
#include "cluster/services.hpp"
#include "cluster/signal.hpp"
#include "protocol/accounts.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/node.hpp"
#include "protocol/training.hpp"
#include "runtime/task_group.hpp"

namespace weir::cluster {

/// One attempt of a placed job, from the start of its worker processes to their end: spawn, initialise, train, take
/// down. Everything that happens to the job arrives through a method that changes the state and wakes run(). Owned by
/// Jobs; used on the head's strand.
class JobRun {
 public:
  /// How an attempt ended.
  struct Ending {
    JobState state = JobState::failed;
    std::string reason;
    bool worker_lost = false;  ///< failed because a process, node or connection died, which a new attempt may cure
  };

  struct Plan {
    JobRecord job;
    protocol::JobSpec spec;
    std::optional<std::filesystem::path> resume_file;  ///< the checkpoint to continue from
    std::vector<std::uint64_t> checkpoints;            ///< steps of the checkpoints that exist already
    Figures::Past past;                                ///< totals of the attempts before this one
  };

  /// `node_ids`: the node of each rank. The resources of each worker are granted here and released when it ends;
  /// `on_room` is then called.
  JobRun(Services& services, NodeTable& nodes, Plan plan, const std::vector<std::string>& node_ids,
         std::function<void()> on_room);

  /// Runs the whole attempt. When it returns, no process of the job is left and all its resources are released, unless
  /// it was abandoned. The job's final state is not committed: the caller does that, or makes another attempt.
  net::awaitable<Ending> run();

  /// Asks the job to stop at the next step that all ranks agree on.
  void request_stop();
  /// For a head that stops: tells the workers to end and makes run() return at once.
  void abandon();

  /// The account of this attempt's workers on their links with the head, until the attempt ends.
  std::string account() const { return protocol::accounts::job(job_.id); }

  // Messages from workers and nodes. They fail with: conflict (an earlier attempt), invalid_argument, and the errors of
  // the store.
  Result<void> worker_up(const std::string& worker_id, runtime::ActorRef<protocol::Worker> actor);
  net::awaitable<Result<void>> report(protocol::Report report);
  Result<void> checkpoint(protocol::CheckpointShare share);
  Result<void> ended(protocol::TrainingEnd end);
  void worker_exited(const protocol::WorkerExit& exit);
  /// Gives up the workers of that node. Returns the process numbers of those that have announced themselves.
  std::vector<std::uint64_t> node_lost(const std::string& node_id, const std::string& reason);
  void process_lost(std::uint64_t process);  ///< the link to it broke
  /// To be called periodically: fails the job if a worker whose link broke has not opened a new one within the time of
  /// a lease. `late` is how long the head itself did not run since the last call; that time is not counted.
  void watch_links(runtime::Clock::duration late);
  net::awaitable<Result<void>> output(std::string worker_id, std::uint64_t offset, std::string text);

  bool has_worker(const std::string& worker_id) const { return rank_of(worker_id).has_value(); }
  const JobRecord& job() const { return job_; }
  const protocol::JobSpec& spec() const { return spec_; }
  const std::vector<std::uint64_t>& checkpoints() const { return checkpoints_.kept(); }
  Figures::Past past() const { return figures_.past(); }
  bool stop_requested() const { return stop_requested_; }
  bool abandoned() const { return abandoned_; }
  std::vector<WorkerRecord> workers() const;
  /// Appends the workers that a node runs now, without their figures.
  void append_workers_on(const std::string& node_id, std::vector<WorkerRecord>& found) const;
  /// The changes that store the present records of the workers.
  std::vector<Change> worker_changes() const;

 private:
  struct Rank {
    WorkerRecord record;
    runtime::ActorRef<protocol::NodeAgent> agent;
    runtime::ActorRef<protocol::Worker> actor;  ///< empty until the process is up
    runtime::ActorRef<protocol::Training> trainer;
    std::optional<protocol::RankEndpoint> endpoint;
    std::optional<protocol::TrainingEnd> end;
    std::optional<runtime::Clock::time_point> link_broken;  ///< since when
    bool started = false;                                   ///< training.start answered
    bool gone = false;                                      ///< no process, its resources are released
    std::uint64_t reported = 0;                             ///< sequence number of the last report accepted
    std::uint64_t log_begin = 0;                            ///< where this worker's output begins in the rank's log
  };
  enum class Waited { done, late, failed, stopped };

  net::awaitable<Ending> attempt();
  net::awaitable<Ending> stop_training();
  net::awaitable<Ending> explain_failure();
  net::awaitable<void> take_down(bool failed);
  net::awaitable<void> launch(std::uint32_t rank);
  net::awaitable<void> end_worker(std::uint32_t rank, std::chrono::milliseconds grace);
  net::awaitable<void> ask_to_stop(std::uint32_t rank);
  net::awaitable<void> prepare(std::uint32_t rank);
  net::awaitable<void> start(std::uint32_t rank, std::vector<protocol::RankEndpoint> peers);
  net::awaitable<void> write_checkpoint(std::uint64_t step, std::vector<Segment> shares);
  net::awaitable<void> record(std::vector<Change> changes);

  /// Waits until `done` holds (done), `limit` has passed (late), the job has failed or is abandoned (failed), or a stop
  /// is requested and the job was not stopping before (stopped).
  net::awaitable<Waited> until(runtime::Clock::duration limit, std::function<bool()> done);
  Ending late(const std::string& what, const std::function<bool(const Rank&)>& missing) const;

  template <class Predicate>
  bool every_rank(Predicate predicate) const;
  void enter(JobPhase phase);
  void fail(std::string cause, bool sure);
  void let_go(Rank& rank);
  void note(Severity severity, std::string kind, std::string message, const Rank* rank);
  void summarize();
  std::uint64_t steps_done() const;
  std::string describe(const Rank& rank) const;  ///< "worker 2 on node b (process 123)"
  std::optional<std::uint32_t> rank_of(const std::string& worker_id) const;
  Result<Rank*> speaker(std::uint32_t rank, std::uint64_t attempt);

  Services& services_;
  NodeTable& nodes_;
  JobRecord job_;
  const protocol::JobSpec spec_;
  const std::string spec_text_;
  const std::optional<std::filesystem::path> resume_file_;
  Segment resume_from_;
  std::function<void()> on_room_;
  std::vector<Rank> ranks_;
  Figures figures_;
  PlanEvents plan_events_;
  std::uint64_t attempt_ = 0;
  const std::string secret_;  ///< its workers prove that they know it, to the head and to each other
  Signal changed_;
  bool stop_requested_ = false;
  bool abandoned_ = false;
  bool taking_down_ = false;
  bool finished_ = false;  ///< nothing changes the job any more
  bool lost_ = false;      ///< a process, node or connection died unexpectedly
  std::string symptom_;    ///< first sign of failure; may be the consequence of a cause not known yet
  std::string cause_;      ///< the certain cause of the failure
  runtime::Clock::time_point published_{};
  JobCheckpoints checkpoints_;
  std::size_t checkpoints_under_way_ = 0;
  runtime::TaskGroup calls_;    ///< to nodes and workers; cancelled once the attempt is over
  runtime::TaskGroup records_;  ///< commits that must reach the store in any case
};

}  // namespace weir::cluster
