#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cluster/head.hpp"
#include "cluster/jobs.hpp"
#include "cluster/node_table.hpp"
#include "cluster/services.hpp"
#include "cluster/store_probe.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/on.hpp"
#include "runtime/task_group.hpp"

namespace weir::cluster {

/// The implementation of Head. Requests of the API and messages of nodes and workers are handled on one strand, which
/// owns the state.
class ClusterHead final : public Head {
 public:
  ClusterHead(HeadOptions options, net::any_io_executor executor, runtime::Clock& clock, runtime::Transport& transport,
              std::shared_ptr<Store> store);

  /// The part of Head::start that can fail.
  net::awaitable<Result<void>> open();

  net::awaitable<void> stop() override;
  std::string control_address() const override { return control_address_; }
  net::awaitable<Result<Submission>> submit(nlohmann::json spec, std::string idempotency_key) override;
  net::awaitable<Result<Validation>> validate(nlohmann::json spec) override;
  net::awaitable<Result<JobPage>> jobs(JobQuery query) override;
  net::awaitable<Result<JobTotals>> job_totals() override;
  net::awaitable<Result<JobRecord>> job(std::string id) override;
  net::awaitable<Result<std::vector<WorkerRecord>>> workers(std::string id) override;
  net::awaitable<Result<JobRecord>> stop_job(std::string id) override;
  net::awaitable<Result<void>> remove_job(std::string id) override;
  net::awaitable<Result<std::vector<MetricSeries>>> metrics(MetricQuery query) override;
  net::awaitable<Result<std::unique_ptr<MetricReader>>> metric_points(MetricQuery query) override;
  net::awaitable<Result<std::vector<WorkerTraffic>>> traffic(TrafficQuery query) override;
  net::awaitable<Result<LogSlice>> logs(std::string id, std::uint32_t worker, std::uint64_t offset,
                                        std::uint64_t limit) override;
  net::awaitable<Result<std::vector<LogSize>>> log_sizes(std::string id) override;
  net::awaitable<Result<EventPage>> events(EventQuery query) override;
  net::awaitable<Result<std::vector<CheckpointRecord>>> checkpoints(std::string id) override;
  net::awaitable<Result<std::filesystem::path>> checkpoint_path(std::string id, std::uint64_t step) override;
  net::awaitable<Result<std::vector<NodeRecord>>> nodes() override;
  net::awaitable<Result<NodeRecord>> node(std::string id) override;
  net::awaitable<Result<NodeRecord>> drain(std::string id) override;
  net::awaitable<Result<NodeRecord>> undrain(std::string id) override;
  net::awaitable<Result<void>> forget(std::string id) override;
  net::awaitable<Result<ActorPage>> actors(std::string filter, std::uint32_t limit, std::string cursor) override;
  net::awaitable<Result<std::unique_ptr<Subscription>>> subscribe(Topics topics,
                                                                  std::optional<std::uint64_t> after) override;
  net::awaitable<Result<Health>> health() override;
  const nlohmann::json& catalog() const override { return services_.options.catalog; }

  // Called by MembershipActor and CoordinatorActor, on their strands.
  net::awaitable<Result<void>> check_version(std::string node_name, std::string version);
  net::awaitable<Result<protocol::NodeWelcome>> join(protocol::NodeInfo info,
                                                     runtime::ActorRef<protocol::NodeAgent> agent);
  net::awaitable<Result<void>> heartbeat(protocol::NodeHeartbeat beat);
  net::awaitable<Result<void>> worker_exited(protocol::WorkerExit exit);
  net::awaitable<Result<void>> output(protocol::OutputBatch batch);
  net::awaitable<Result<void>> worker_up(std::string account, std::string worker_id,
                                         runtime::ActorRef<protocol::Worker> worker);
  net::awaitable<Result<void>> report(protocol::Report report);
  net::awaitable<Result<void>> checkpoint(protocol::CheckpointPiece piece);
  net::awaitable<Result<Segment>> resume(protocol::ResumeRequest request);
  net::awaitable<Result<void>> ended(protocol::TrainingEnd end);

 private:
  /// Runs a task on the head's strand and returns its result on the caller's executor.
  template <class T>
  net::awaitable<Result<T>> here(net::awaitable<Result<T>> task) {
    return runtime::on(services_.strand, std::move(task));
  }

  net::awaitable<Result<void>> recover();
  net::awaitable<Result<void>> stop_here();
  net::awaitable<Result<protocol::NodeWelcome>> join_here(protocol::NodeInfo info,
                                                          runtime::ActorRef<protocol::NodeAgent> agent);
  protocol::NodeWelcome rejoin(NodeTable::Node& node, const protocol::NodeInfo& info);
  net::awaitable<Result<void>> heartbeat_here(protocol::NodeHeartbeat beat);
  net::awaitable<Result<void>> worker_exited_here(protocol::WorkerExit exit);
  net::awaitable<Result<void>> output_here(protocol::OutputBatch batch);
  net::awaitable<Result<void>> worker_up_here(std::string account, std::string worker_id,
                                              runtime::ActorRef<protocol::Worker> worker);
  net::awaitable<Result<void>> report_here(protocol::Report report);
  net::awaitable<Result<void>> checkpoint_here(protocol::CheckpointPiece piece);
  net::awaitable<Result<Segment>> resume_here(protocol::ResumeRequest request);
  net::awaitable<Result<void>> ended_here(protocol::TrainingEnd end);
  net::awaitable<Result<JobPage>> explained(JobPage page);
  net::awaitable<Result<JobTotals>> job_totals_here();
  net::awaitable<Result<std::vector<WorkerRecord>>> workers_here(std::string id);
  net::awaitable<Result<std::vector<NodeRecord>>> nodes_here();
  net::awaitable<Result<NodeRecord>> node_here(std::string id);
  net::awaitable<Result<NodeRecord>> drain_here(std::string id, bool drained);
  net::awaitable<Result<void>> forget_here(std::string id);
  /// Waits until it is decided whether that node is removed, if its removal is being committed. Whatever changes a lost
  /// node comes after that: a row that is written behind its removal would be there again.
  net::awaitable<void> removal_decided(std::string id_or_name);
  net::awaitable<Result<ActorPage>> actors_here(std::string filter, std::uint32_t limit, std::string cursor);
  net::awaitable<Result<Health>> health_here();

  net::awaitable<void> watch_nodes();
  net::awaitable<void> record(std::vector<Change> changes);
  void lose(NodeTable::Node& node, const std::string& reason);
  /// Records which GPUs of a node have vanished or come back.
  void note_gpus(const std::string& node_id, const NodeTable::Heard& heard);
  void peer_lost(std::uint64_t process, const std::string& why);
  NodeRecord with_workers(NodeRecord node) const;
  void append_node_changes(std::vector<Change>& changes, const NodeRecord& node, Severity severity, std::string kind,
                           std::string message) const;
  net::awaitable<Result<JobRecord>> existing_job(std::string id);

  std::optional<net::thread_pool> file_thread_;
  std::optional<net::thread_pool> log_thread_;
  Services services_;
  NodeTable nodes_;
  Jobs jobs_;
  StoreProbe probe_;
  std::map<std::string, runtime::Clock::time_point> shown_;  ///< when the load was last put on the stream, by node id
  /// Nodes whose output is being written, by id: one message of each at a time. A disk that is held up must not fill
  /// the mailbox with what nodes repeat meanwhile, since their heartbeats go through it, too.
  std::set<std::string> output_under_way_;
  bool stopping_ = false;
  std::string control_address_;
  runtime::TaskGroup tasks_;
  runtime::ActorSystem system_;
};

}  // namespace weir::cluster
