#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "cluster/head.hpp"

namespace weir::api {

namespace net = boost::asio;

/// A head in memory for the API's tests. It holds what a test puts there and what requests submit. One thread runs
/// `io`; all members are used on that thread, or before it starts.
class FakeHead final : public cluster::Head {
 public:
  explicit FakeHead(net::io_context& io);

  std::map<std::string, cluster::JobRecord> jobs_by_id;  ///< ids ascend with time
  std::map<std::string, std::string> logs_by_job;        ///< logs of worker 0
  std::vector<cluster::NodeRecord> node_list;
  std::vector<cluster::ActorRecord> actor_list;
  std::vector<cluster::EventRecord> event_list;
  std::vector<cluster::MetricRow> metric_rows;       ///< rows of every job, in order of arrival
  std::vector<cluster::WorkerTraffic> traffic_list;  ///< of every job
  std::filesystem::path checkpoint_file;             ///< the checkpoint of every job, at step 10
  cluster::Health health_now{true, true, {}};
  bool throws = false;  ///< nodes() throws an exception, as a library might
  std::uint64_t oldest_kept = 0;

  /// Adds an item to the stream and wakes subscribers. May be called from any thread.
  void publish(cluster::StreamItem item);

  net::awaitable<void> stop() override;
  std::string control_address() const override;
  net::awaitable<Result<cluster::Submission>> submit(nlohmann::json spec, std::string idempotency_key) override;
  net::awaitable<Result<cluster::Validation>> validate(nlohmann::json spec) override;
  net::awaitable<Result<cluster::JobPage>> jobs(cluster::JobQuery query) override;
  net::awaitable<Result<cluster::JobTotals>> job_totals() override;
  net::awaitable<Result<cluster::JobRecord>> job(std::string id) override;
  net::awaitable<Result<std::vector<cluster::WorkerRecord>>> workers(std::string id) override;
  net::awaitable<Result<cluster::JobRecord>> stop_job(std::string id) override;
  net::awaitable<Result<void>> remove_job(std::string id) override;
  net::awaitable<Result<std::vector<cluster::MetricSeries>>> metrics(cluster::MetricQuery query) override;
  net::awaitable<Result<std::unique_ptr<cluster::MetricReader>>> metric_points(cluster::MetricQuery query) override;
  net::awaitable<Result<std::vector<cluster::WorkerTraffic>>> traffic(cluster::TrafficQuery query) override;
  net::awaitable<Result<cluster::LogSlice>> logs(std::string id, std::uint32_t worker, std::uint64_t offset,
                                                 std::uint64_t limit) override;
  net::awaitable<Result<std::vector<cluster::LogSize>>> log_sizes(std::string id) override;
  net::awaitable<Result<cluster::EventPage>> events(cluster::EventQuery query) override;
  net::awaitable<Result<std::vector<cluster::CheckpointRecord>>> checkpoints(std::string id) override;
  net::awaitable<Result<std::filesystem::path>> checkpoint_path(std::string id, std::uint64_t step) override;
  net::awaitable<Result<std::vector<cluster::NodeRecord>>> nodes() override;
  net::awaitable<Result<cluster::NodeRecord>> node(std::string id) override;
  net::awaitable<Result<cluster::NodeRecord>> drain(std::string id) override;
  net::awaitable<Result<cluster::NodeRecord>> undrain(std::string id) override;
  net::awaitable<Result<void>> forget(std::string id) override;
  net::awaitable<Result<cluster::ActorPage>> actors(std::string filter, std::uint32_t limit,
                                                    std::string cursor) override;
  net::awaitable<Result<std::unique_ptr<cluster::Subscription>>> subscribe(cluster::Topics topics,
                                                                           std::optional<std::uint64_t> after) override;
  net::awaitable<Result<cluster::Health>> health() override;
  const nlohmann::json& catalog() const override { return catalog_; }

 private:
  friend class FakeSubscription;

  std::vector<cluster::MetricSeries> series_of(const cluster::MetricQuery& query) const;

  net::io_context& io_;
  nlohmann::json catalog_;
  std::map<std::string, std::pair<nlohmann::json, std::string>> keys_;  ///< idempotency key -> body, job id
  std::vector<cluster::StreamItem> items_;
  std::list<net::steady_timer*> waiting_;  ///< one per waiting subscriber
};

}  // namespace weir::api
