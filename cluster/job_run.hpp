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
#include "cluster/services.hpp"
#include "cluster/signal.hpp"
#include "protocol/accounts.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/node.hpp"
#include "protocol/training.hpp"
#include "runtime/task_group.hpp"

namespace weir::cluster {

/// Brings one placed job from its worker processes to its end: spawn, initialise, train, take down. Everything that
/// happens to the job comes in through a method that changes the state and wakes run(). Owned by Jobs; lives on the
/// head's strand.
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
    std::optional<std::filesystem::path> resume_file;  ///< the checkpoint to go on from
    std::vector<std::uint64_t> checkpoints;            ///< steps of those the job has already
    Figures::Past past;                                ///< what attempts before this one took
  };

  /// `node_ids`: the node of each rank; their resources are granted here and released as each worker goes. `on_room`
  /// is called when they are.
  JobRun(Services& services, NodeTable& nodes, Plan plan, const std::vector<std::string>& node_ids,
         std::function<void()> on_room);

  /// The whole attempt. At its end no process of the job is left and all its resources are released, but the job's
  /// last state is not committed: that is the caller's, who may try again.
  net::awaitable<Ending> run();

  /// Stops at the next step that all ranks agree on.
  void request_stop();
  /// The head stops: workers are told to end, run() returns at once.
  void abandon();

  // What workers and nodes say. Fail with: conflict (an earlier attempt), invalid_argument, and what the store fails
  // with.
  /// As whom the workers of this attempt link with the head, until the attempt ends.
  std::string account() const { return protocol::accounts::job(job_.id); }

  Result<void> worker_up(const std::string& worker_id, runtime::ActorRef<protocol::Worker> actor);
  net::awaitable<Result<void>> report(protocol::Report report);
  Result<void> checkpoint(protocol::CheckpointShare share);
  Result<void> ended(protocol::TrainingEnd end);
  void worker_exited(const protocol::WorkerExit& exit);
  /// Gives up the workers of that node. Gives the processes of those that have announced themselves.
  std::vector<std::uint64_t> node_lost(const std::string& node_id, const std::string& reason);
  void process_lost(std::uint64_t process);  ///< the link to it broke
  /// To be called every now and then: a worker whose link broke has the time of a lease to link itself anew. `late`
  /// says for how long the head itself has not listened since the last time: that is not counted.
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
  /// Appends those that a node runs now, without their figures.
  void append_workers_on(const std::string& node_id, std::vector<WorkerRecord>& found) const;
  /// Changes that record the workers as they stand.
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
    std::uint64_t reported = 0;                             ///< last report taken
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

  /// Waits until `done` holds, or something forbids to wait on. During training a wish to stop is not waited for here.
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
  change::AddEvent event(Severity severity, std::string kind, std::string message, const Rank* rank) const;

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
  std::uint64_t attempt_ = 0;
  const std::string secret_;  ///< what its workers prove, to the head and to each other
  Signal changed_;
  bool stop_requested_ = false;
  bool abandoned_ = false;
  bool taking_down_ = false;
  bool finished_ = false;  ///< nothing changes the job any more
  bool lost_ = false;      ///< a process, node or connection died unasked
  std::string symptom_;    ///< first sign of failure; may be a consequence of what is not known yet
  std::string cause_;      ///< the failure, for sure
  runtime::Clock::time_point published_{};
  JobCheckpoints checkpoints_;
  std::size_t checkpoints_under_way_ = 0;
  runtime::TaskGroup calls_;    ///< to nodes and workers: of no use any more once the attempt is over
  runtime::TaskGroup records_;  ///< what must reach the store in any case
};

}  // namespace weir::cluster
