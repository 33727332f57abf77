#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/head.hpp"
#include "cluster/node.hpp"
#include "cluster/store.hpp"
#include "protocol/training.hpp"
#include "runtime/actor.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/testing/fake_process.hpp"
#include "runtime/testing/simulation.hpp"
#include "tests/cluster/commit_log.hpp"
#include "tests/cluster/fake_gpus.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::cluster {

/// The behaviour of the simulated trainers; shared by all trainers of a FakeCluster.
struct TrainerScript {
  std::uint64_t steps = 10;
  std::chrono::milliseconds step_time{100};
  std::uint64_t checkpoint_every = 0;
  std::optional<Error> prepare_fails;
  bool hang_in_prepare = false;
  std::chrono::milliseconds prepare_time{0};
  bool hang_in_boot = false;    ///< processes start but never call the coordinator
  bool repeat_reports = false;  ///< each report is sent twice
  bool ignore_stop = false;
  std::uint64_t period = 1;                    ///< steps between two exchanges, in which the ranks agree to stop
  std::map<std::uint32_t, Error> start_fails;  ///< by rank: what it answers instead of training
  /// How the training of a rank fails after its first step, if it does: rank 0 first, the others each so much later.
  std::function<std::optional<protocol::TrainingEnd>(std::uint32_t rank)> fails;
  std::chrono::milliseconds failure_interval{100};
  std::chrono::milliseconds evaluation{0};  ///< after the last step, by rank 0
  /// Gives the traffic that a rank adds to its report of a step.
  std::function<std::optional<protocol::TrafficReport>(std::uint32_t rank, std::uint64_t step)> traffic;
  std::vector<protocol::Assignment>
      assignments;                         ///< that trainers and servers were given, in the order of their coming
  bool silent_servers = false;             ///< whoever is no worker sends no reports
  std::vector<std::string> missing_types;  ///< of actors that this build of the worker does not have
  std::optional<Error> refusal;            ///< of the last report that was refused
  std::uint64_t share_values = 2;          ///< floats in each share of a checkpoint
  std::uint64_t acknowledged = 0;          ///< the last step of a report that the head has acknowledged
  std::uint64_t step_resumed = 0;          ///< of the checkpoint, as told by prepare: the first step is the next one
  struct Resumed {
    std::uint32_t rank = 0;
    Segment part;  ///< empty: it began anew
  };
  std::vector<Resumed> resumed;  ///< what each prepare has got to go on from
};

/// A process spawner whose children are simulated workers, each with an actor system of its own in the simulation.
class WorkerSpawner final : public runtime::ProcessSpawner {
 public:
  WorkerSpawner(runtime::testing::Simulation& simulation, TrainerScript& script);
  ~WorkerSpawner() override;

  Result<std::unique_ptr<runtime::Process>> spawn(net::any_io_executor executor, runtime::ProcessSpec spec) override;

  const std::vector<runtime::testing::FakeChild>& children() const { return fake_.children(); }
  void fail_next(Error why) { fake_.fail_next(std::move(why)); }
  std::size_t alive() const;
  /// Like kill -9: process and links are gone.
  void kill(std::size_t child, int signal = 9);

 private:
  runtime::testing::Simulation& simulation_;
  TrainerScript& script_;
  runtime::testing::FakeProcessSpawner fake_;
  std::size_t living_ = 0;  ///< children whose actors have not all ended
};

/// A head, nodes and simulated workers in one simulation with virtual time and one thread. Head and agents can be
/// stopped and continued as by SIGSTOP and SIGCONT.
class FakeCluster {
 public:
  explicit FakeCluster(std::uint64_t seed = 1) : simulation(seed) { start_head(); }
  ~FakeCluster();

  /// `refused`: what its store does not commit, from the beginning until it is told to accept.
  void start_head(std::function<bool(const std::vector<Change>&)> refused = nullptr);
  /// Like kill -9, as far as files go: the next head finds them as they are now, whatever this one still does to them
  /// while it is stopped in order.
  void kill_head();
  /// As by SIGTERM.
  void stop_head();
  void add_node(const std::string& name, double cpu, std::uint64_t incarnation = 0,
                std::map<std::string, std::string> labels = {});
  void remove_node(const std::string& name);

  Submission submit(nlohmann::json spec, const std::string& key = "");
  /// A job for these trainers; `more` is merged into the spec.
  static nlohmann::json spec(std::uint32_t workers, const nlohmann::json& more = nlohmann::json::object());
  /// Submits a job and returns its id.
  std::string submit_job(std::uint32_t workers, const nlohmann::json& more = nlohmann::json::object());

  /// The id of a job that has made some steps, and left a checkpoint when it was stopped.
  std::string stopped_job(std::uint32_t workers);

  JobRecord job(const std::string& id);
  /// Lets time pass until the job is in a wanted state. Returns false if `limit` passes before.
  bool await_job(const std::string& id, const std::function<bool(const JobRecord&)>& wanted,
                 std::chrono::milliseconds limit = std::chrono::minutes(20));
  JobRecord await_end(const std::string& id);
  JobRecord await_phase(const std::string& id, JobPhase phase);
  NodeRecord node(const std::string& name);
  bool await_node(const std::string& name, NodeState state);
  std::size_t processes() const;

  runtime::testing::Simulation simulation;
  std::unique_ptr<runtime::testing::SimulatedProcess> head_process = simulation.process();
  /// A test stops one of these to simulate a slow disk: that of the store, or that of checkpoints.
  std::unique_ptr<runtime::testing::SimulatedProcess> store_process = simulation.process();
  std::unique_ptr<runtime::testing::SimulatedProcess> files_process = simulation.process();
  std::map<std::string, std::unique_ptr<runtime::testing::SimulatedProcess>> node_processes;
  TrainerScript script;
  TemporaryDir dir;
  std::shared_ptr<CommitLog> store;
  std::unique_ptr<Head> head;
  std::map<std::string, std::shared_ptr<FakeGpuProbe>> gpus;  ///< of the nodes to be added that have some, by name
  std::map<std::string, std::unique_ptr<WorkerSpawner>> spawners;
  std::map<std::string, std::unique_ptr<Node>> nodes;
  std::map<std::string, std::shared_ptr<std::optional<Result<void>>>> node_results;
};

}  // namespace weir::cluster
