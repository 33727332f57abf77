#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cluster/attempt/process_table.hpp"
#include "cluster/attempt/reports.hpp"
#include "cluster/attempt/state.hpp"
#include "cluster/attempt/worker_logs.hpp"
#include "cluster/checkpoint_reader.hpp"
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

/// One attempt of a placed job, from the start of its worker processes to their end. run() leads the processes
/// (ProcessTable) through the steps of an AttemptState, each of which is committed as one change. Everything that
/// happens to the job meanwhile arrives through a method that changes the state and wakes run(); what workers report,
/// print and save goes to Reports, WorkerLogs and JobCheckpoints. Owned by Jobs; used on the head's strand.
class JobRun {
 public:
  /// How an attempt ended.
  struct Ending {
    JobState state = JobState::failed;
    std::string reason;
  };

  struct Plan {
    JobRecord job;
    protocol::JobSpec spec;
    std::uint64_t order = 0;                           ///< of submission
    std::optional<std::filesystem::path> resume_file;  ///< the checkpoint to continue from
    std::vector<std::uint64_t> checkpoints;            ///< steps of the checkpoints that exist already
    Figures::Past past;                                ///< totals of the attempts before this one
  };

  /// `node_ids`: the node of each rank. The resources of each process are granted here and released when it ends;
  /// `on_room` is then called.
  JobRun(Services& services, NodeTable& nodes, Plan plan, const std::vector<std::string>& node_ids,
         std::function<void()> on_room);

  /// Runs the whole attempt. When it returns, no process of the job is left and all its resources are released, unless
  /// it was abandoned. One that was abandoned has failed, unless nothing was left to do but to end processes. One that
  /// was asked to stop is stopped, also if it has lost a worker before or after that. The job's final state is not
  /// committed: the caller does that, or makes another attempt.
  net::awaitable<Ending> run();

  /// Asks the job to stop at the next step that all ranks agree on. A checkpoint for which there is no room is then not
  /// waited for without end. job() shows that at once; the caller commits it. Returns whether its phase is a new one.
  bool request_stop();
  /// For a head that stops: tells the workers to end and makes run() return at once.
  void abandon();

  /// The account of this attempt's workers on their links with the head, until the attempt ends.
  std::string account() const { return protocol::accounts::job(job_.id); }

  // Messages from workers and nodes. They fail with: conflict (an earlier attempt), invalid_argument, and the errors of
  // the store.
  Result<void> worker_up(const std::string& worker_id, runtime::ActorRef<protocol::Worker> actor);
  net::awaitable<Result<void>> report(protocol::Report report);
  /// Also: malformed, as protocol::ShareAssembly::add(); exhausted: too many wait to be written; ask again.
  Result<void> checkpoint(const protocol::CheckpointPiece& piece);
  net::awaitable<Result<Segment>> resume(protocol::ResumeRequest request);
  Result<void> ended(protocol::TrainingEnd end);
  void worker_exited(const protocol::WorkerExit& exit);
  struct Lost {
    std::vector<std::uint64_t> processes;  ///< the numbers of those that have announced themselves
    std::vector<Change> changes;           ///< the records of all, to be committed with that of the node
  };
  /// Gives up the workers of that node.
  Lost node_lost(const std::string& node_id, const std::string& reason);
  void process_lost(std::uint64_t process);  ///< the link to it broke
  /// GPUs of a node are lost. What computes there fails by itself, which is then no fault of the job.
  void gpus_lost(const std::string& node_id, const std::vector<protocol::Gpu>& gpus);
  /// They are there again.
  void gpus_back(const std::vector<protocol::Gpu>& gpus) {
    for (const auto& gpu : gpus) state_.note_gpu_back(gpu.uuid);
  }
  /// To be called periodically: fails the job if a worker whose link broke has not opened a new one within the time of
  /// a lease. `late` is how long the head itself did not run since the last call; that time is not counted.
  void watch_links(runtime::Clock::duration late);
  /// Keeps what a worker has printed, see WorkerLogs::append(). The caller commits the item, and then says that.
  net::awaitable<Result<std::optional<WorkerLogs::Unpublished>>> output(std::string worker_id, std::uint64_t offset,
                                                                        std::string text);
  void output_published(std::uint32_t rank, std::uint64_t end) { logs_.published(rank, end); }

  bool has_worker(const std::string& worker_id) const { return processes_.find(worker_id) != nullptr; }
  /// Its processes. Their records are without steps and figures, which workers() adds.
  const ProcessTable& processes() const { return processes_; }
  const JobRecord& job() const { return job_; }
  const protocol::JobSpec& spec() const { return spec_; }
  const std::vector<std::uint64_t>& checkpoints() const { return checkpoints_.kept(); }
  std::uint64_t order() const { return order_; }
  Figures::Past past() const { return reports_.figures().past(); }
  bool stop_requested() const { return state_.stop_requested(); }
  bool abandoned() const { return state_.abandoned(); }
  /// The attempt has failed for the loss of a worker, and another one may follow.
  bool comes_back() const;
  std::vector<WorkerRecord> workers() const;
  /// The changes that store the records of the workers and say what was lost: for whoever commits the end of run().
  std::vector<Change> last_changes() const;

 private:
  using Step = AttemptState::Step;
  enum class Waited { done, late, failed, stopped };
  static constexpr std::chrono::seconds prepare_limit{300};  ///< reads the dataset
  static constexpr std::chrono::seconds start_limit{60};     ///< connects the group

  net::awaitable<Ending> attempt();
  net::awaitable<Result<void>> open_checkpoint();
  runtime::Clock::duration prepare_time() const;
  std::uint64_t steps_to_agree() const;
  std::chrono::seconds stop_time() const;
  net::awaitable<Ending> stop_training();
  bool stops_at_a_loss() const;
  net::awaitable<Ending> explain_failure();
  net::awaitable<void> take_down(bool failed);

  // Calls to one process. What fails is noted in the state.
  net::awaitable<void> launch(Process& process);
  net::awaitable<void> prepare(Process& process);
  net::awaitable<void> start(Process& process, std::vector<protocol::RankEndpoint> peers);
  net::awaitable<void> ask_to_stop(Process& process);
  net::awaitable<void> end_process(Process& process, std::chrono::milliseconds grace);
  template <class Call>
  std::invoke_result_t<Call&> until_answered(const Process& process, Call call);
  bool resumed_without_steps(const protocol::Prepared& prepared) const;
  protocol::Assignment assignment_of(const Process& process) const;
  /// The workers of the job, which are its first ranks.
  std::uint32_t world() const { return protocol::count_of(spec_.resources.groups, protocol::Role::worker); }

  net::awaitable<void> write_checkpoint(std::uint64_t step, std::vector<Pieces> shares);
  bool is_wanted(std::uint64_t step) const;
  net::awaitable<bool> wait_for_room(std::uint64_t step, runtime::Clock::time_point begun,
                                     runtime::Clock::duration pause);
  net::awaitable<void> record(std::vector<Change> changes);

  /// Waits until `done` holds of every process (done), `limit` has passed (late), the job has failed or is abandoned
  /// (failed), or a stop is requested and the job was not stopping before (stopped).
  net::awaitable<Waited> until(runtime::Clock::duration limit, bool (*done)(const Process&));
  Ending late(const std::string& what, bool (*done)(const Process&));

  /// Moves to a step and commits that. Whoever acts on the step waits for it.
  net::awaitable<void> enter(Step step);
  net::awaitable<void> commit_step(bool phase_is_new);
  void show_sign(std::string what);
  void blame(std::string cause);
  /// A call to a process has failed. That the process is gone is a sign of something else.
  void call_failed(const Process& process, const std::string& what, const Error& error);
  void let_go(Process& process);
  void note(Severity severity, std::string kind, std::string message, const Process* process);
  std::uint64_t steps_done() const;
  /// Nothing is left but to evaluate the model.
  bool all_steps_done() const;
  std::uint64_t bytes_received() const;
  WorkerRecord record_of(const Process& process) const;
  std::vector<Change> worker_changes() const;
  Result<Process*> speaker(std::uint32_t rank, std::uint64_t attempt);

  Services& services_;
  JobRecord job_;
  const protocol::JobSpec spec_;
  const std::string spec_text_;
  const std::uint64_t order_;
  const std::optional<std::filesystem::path> resume_file_;
  std::shared_ptr<const CheckpointReader> resume_from_;  ///< until all processes have their parts
  const std::uint64_t attempt_;
  const std::string secret_;  ///< its workers prove that they know it, to the head and to each other
  AttemptState state_;
  ProcessTable processes_;
  Reports reports_;
  WorkerLogs logs_;
  JobCheckpoints checkpoints_;
  std::size_t checkpoints_under_way_ = 0;
  std::vector<Change> lost_;  ///< events of checkpoints that were given up; the disk may be too full to commit them yet
  std::optional<runtime::Clock::time_point> stop_requested_at_;
  bool failed_ = false;  ///< it is over, and no checkpoint is waited for any more
  Signal changed_;
  runtime::TaskGroup calls_;    ///< to nodes and workers; cancelled once the attempt is over
  runtime::TaskGroup records_;  ///< commits that must reach the store in any case
};

}  // namespace weir::cluster
