#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/metric_reader.hpp"
#include "cluster/records.hpp"
#include "cluster/stream.hpp"
#include "cluster/traffic.hpp"
#include "protocol/schema.hpp"
#include "protocol/training_shape.hpp"

namespace weir::runtime {
class Clock;
class Transport;
}  // namespace weir::runtime

namespace weir::cluster {

class Store;

namespace net = boost::asio;

struct HeadOptions {
  std::string listen = "127.0.0.1:6380";  ///< control port; port 0 lets the system choose, see Head::control_address
  std::filesystem::path data_dir;         ///< job files below it; the caller holds its lock (DataDir)
  std::string node_secret;                ///< nodes must prove that they know it; not the API's token
  nlohmann::json catalog;                 ///< models, datasets, compressors, ...: what `weir-worker catalog` prints
  protocol::ShapeOf shape_of;             ///< finds the sizes of model and data set; may be empty
  std::string version;
  net::any_io_executor
      files;                  ///< for blocking work with checkpoints and folders; empty: the head makes a thread for it
  net::any_io_executor logs;  ///< the same for what workers print, which must not wait behind a large checkpoint
  std::optional<std::uint64_t> id_seed;  ///< seeds the ids, for tests; otherwise the system's entropy does
};

/// Something in a valid spec that its author may not want.
struct Warning {
  std::string pointer;  ///< JSON pointer into the spec
  std::string detail;   ///< one sentence: what will happen, and what to do about it

  friend bool operator==(const Warning&, const Warning&) = default;
};

/// The result of submit(). Either `problems` is empty and there is a job, or the document was refused.
struct Submission {
  std::vector<protocol::Problem> problems;
  std::optional<JobRecord> job;
  std::vector<Warning> warnings;
  bool created = false;  ///< false: the job is from an earlier request with the same idempotency key
};

/// The result of validate().
struct Validation {
  std::vector<protocol::Problem> problems;
  nlohmann::json spec;       ///< normalized, if there are no problems
  nlohmann::json placement;  ///< {"fits": true, "workers": [{"rank","node"}]} or {"fits": false, "reason": "..."}
  /// {"parameters", "bytes_dense", "bytes_sent"}: an estimate for one worker and one exchange, in bytes; null members
  /// where it is unknown.
  nlohmann::json round;
  std::vector<Warning> warnings;
};

struct Health {
  bool store_writable = false;
  bool accepting = false;  ///< the control port is open and the head is not stopping
  std::string detail;      ///< why not ready, or ""
};

/// The head of a cluster: membership, scheduler, jobs, store and stream behind one interface, for the API and the
/// command line. Owned by main; every function may be awaited from any executor and resumes there. State changes are
/// committed before the function returns. Every function can fail with: io, exhausted (disk full), cancelled
/// (stopping).
class Head {
 public:
  virtual ~Head() = default;

  /// Starts a head: recovers the state of the run before and accepts nodes. `store` must be open; executor, clock and
  /// transport must outlive the head. Fails with: io (address in use), and the errors of the store.
  static net::awaitable<Result<std::unique_ptr<Head>>> start(HeadOptions options, net::any_io_executor executor,
                                                             runtime::Clock& clock, runtime::Transport& transport,
                                                             std::shared_ptr<Store> store);

  /// Stops in order: accepts no new work, tells the workers to end (or leaves that to their nodes' leases), flushes and
  /// closes the store.
  virtual net::awaitable<void> stop() = 0;

  /// Where nodes reach this head, with the port really in use.
  virtual std::string control_address() const = 0;

  /// Checks and commits a job. `idempotency_key` may be empty. Fails with: conflict (the key was used with another
  /// body), invalid_argument (the key is too long).
  virtual net::awaitable<Result<Submission>> submit(nlohmann::json spec, std::string idempotency_key) = 0;

  /// A dry run of submit(): nothing is committed.
  virtual net::awaitable<Result<Validation>> validate(nlohmann::json spec) = 0;

  /// Fails with: invalid_argument (limit, cursor).
  virtual net::awaitable<Result<JobPage>> jobs(JobQuery query) = 0;

  /// Totals of all jobs, read from memory however many jobs there are.
  virtual net::awaitable<Result<JobTotals>> job_totals() = 0;

  /// Fails with: not_found.
  virtual net::awaitable<Result<JobRecord>> job(std::string id) = 0;

  /// The workers of a job, in rank order. Fails with: not_found.
  virtual net::awaitable<Result<std::vector<WorkerRecord>>> workers(std::string id) = 0;

  /// Asks a job to stop and returns its record. Stopping one that has ended changes nothing. Fails with: not_found,
  /// exhausted (its end is being committed; ask again), and the errors of the store: then a job that waited waits on,
  /// and one that runs stops all the same, but a head that is started before that is recorded runs it again.
  virtual net::awaitable<Result<JobRecord>> stop_job(std::string id) = 0;

  /// Deletes a job and its files. Fails with: not_found, conflict (it has not ended).
  virtual net::awaitable<Result<void>> remove_job(std::string id) = 0;

  /// Down-sampled series. Fails with: not_found, invalid_argument (points).
  virtual net::awaitable<Result<std::vector<MetricSeries>>> metrics(MetricQuery query) = 0;

  /// A reader of all points recorded so far, however many there are; the query's `points` is ignored. The reader may
  /// outlive the head. Fails with: not_found.
  virtual net::awaitable<Result<std::unique_ptr<MetricReader>>> metric_points(MetricQuery query) = 0;

  /// What the workers of the job's newest attempt have exchanged, in rank order; those that have not reported are
  /// missing, and so are the parts that are not asked for. Fails with: not_found.
  virtual net::awaitable<Result<std::vector<WorkerTraffic>>> traffic(TrafficQuery query) = 0;

  /// At most `limit` (<= 1 MiB) bytes of the output of the process with rank `worker` from `offset`, cut at a UTF-8
  /// boundary. For an offset beyond the end, the slice is empty. Fails with: not_found (job or rank).
  virtual net::awaitable<Result<LogSlice>> logs(std::string id, std::uint32_t worker, std::uint64_t offset,
                                                std::uint64_t limit) = 0;

  /// How much each process of the job has printed, in rank order, without those that have printed nothing.
  /// Fails with: not_found.
  virtual net::awaitable<Result<std::vector<LogSize>>> log_sizes(std::string id) = 0;

  /// Events of a job or of the cluster.
  /// Fails with: not_found, invalid_argument (limit above 1000).
  virtual net::awaitable<Result<EventPage>> events(EventQuery query) = 0;

  /// The checkpoints of a job by step, oldest first. Fails with: not_found.
  virtual net::awaitable<Result<std::vector<CheckpointRecord>>> checkpoints(std::string id) = 0;

  /// The file of one checkpoint, to read at once: pruning may remove it later. Fails with: not_found.
  virtual net::awaitable<Result<std::filesystem::path>> checkpoint_path(std::string id, std::uint64_t step) = 0;

  /// Living nodes by name, then lost ones.
  virtual net::awaitable<Result<std::vector<NodeRecord>>> nodes() = 0;

  /// By id or by name. Fails with: not_found.
  virtual net::awaitable<Result<NodeRecord>> node(std::string id) = 0;

  /// Places nothing more on the node, also after it has joined again; its workers continue. Idempotent.
  /// Fails with: not_found, conflict (lost).
  virtual net::awaitable<Result<NodeRecord>> drain(std::string id) = 0;

  /// Reverts drain(), also for a node that is lost. Idempotent. Fails with: not_found.
  virtual net::awaitable<Result<NodeRecord>> undrain(std::string id) = 0;

  /// Takes a lost node off the list, by id or by name. Whoever joins with its name later is a new node, and not
  /// drained. Fails with: not_found, conflict (not lost).
  virtual net::awaitable<Result<void>> forget(std::string id) = 0;

  /// Actors whose name or type contains `filter`, sorted by name: at most `limit` (1..1000) after `cursor`.
  virtual net::awaitable<Result<ActorPage>> actors(std::string filter, std::uint32_t limit, std::string cursor) = 0;

  /// Subscribes to the stream, after a sequence number (an SSE Last-Event-ID) or from now on.
  virtual net::awaitable<Result<std::unique_ptr<Subscription>>> subscribe(Topics topics,
                                                                          std::optional<std::uint64_t> after) = 0;

  virtual net::awaitable<Result<Health>> health() = 0;

  /// The catalog given in the options. Safe from any thread.
  virtual const nlohmann::json& catalog() const = 0;
};

}  // namespace weir::cluster
