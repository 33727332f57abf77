#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "cluster/records.hpp"
#include "cluster/traffic.hpp"

namespace weir::cluster {

namespace net = boost::asio;

/// One change of the head's persistent state. A job is written as a whole; the other changes concern single rows.
namespace change {
struct AddJob {
  JobRecord job;
  std::string idempotency_key;  ///< "" = none
  std::string body_hash;        ///< of the submitted document
};
struct PutJob {
  JobRecord job;  ///< all but the spec, which never changes
};
/// With its workers, events, metrics, traffic, checkpoints and what the stream keeps of it. From this commit on nobody
/// finds the job. Its rows, of which there may be many millions, are deleted bit by bit in commits of their own.
struct RemoveJob {
  std::string id;
};
struct PutWorker {
  WorkerRecord worker;
};
struct PutNode {
  NodeRecord node;  ///< identity and state; load figures are not kept
};
struct RemoveNode {
  std::string id;  ///< it is also published that this node is gone
};
struct AddEvent {
  EventRecord event;  ///< its sequence is assigned by the store; it is also published
};
struct AddMetrics {
  std::string job_id;
  std::vector<MetricRow> rows;
};
/// Replaces what the store has of this worker. Timelines and the plan stay if the record lacks them; rows of earlier
/// attempts go.
struct PutTraffic {
  WorkerTraffic traffic;
};
struct AddCheckpoint {
  CheckpointRecord checkpoint;
};
struct RemoveCheckpoint {
  std::string job_id;
  std::uint64_t step = 0;
};
/// Puts an item on the stream.
struct Publish {
  StreamKind kind = StreamKind::job;
  std::string job_id;
  std::string data;
};
struct PutFence {  ///< the store keeps the greatest one
  std::uint64_t fence = 0;
};
}  // namespace change

using Change = std::variant<change::AddJob, change::PutJob, change::RemoveJob, change::PutWorker, change::PutNode,
                            change::RemoveNode, change::AddEvent, change::AddMetrics, change::PutTraffic,
                            change::AddCheckpoint, change::RemoveCheckpoint, change::Publish, change::PutFence>;

/// The job that was submitted with an idempotency key, and the hash of its body.
struct KeyUse {
  std::string job_id;
  std::string body_hash;
};

/// The head's persistent state, which is its only source of truth. Owned by the head; may be called from any executor,
/// and resumes on the caller's. Commits are applied in the order of the calls. Every function can fail with: io (the
/// file cannot be read or written, or is damaged), exhausted (disk full, or another program holds the file), cancelled
/// (closed).
class Store {
 public:
  virtual ~Store() = default;

  /// Applies all changes or none, and returns once they would survive the death of this process and of the machine.
  /// Without changes it tells whether the store can be written: after a failure it tries to.
  /// Fails with: conflict (a job id or idempotency key is taken; nothing is changed).
  virtual net::awaitable<Result<void>> commit(std::vector<Change> changes) = 0;

  virtual net::awaitable<Result<std::optional<JobRecord>>> job(std::string id) = 0;
  virtual net::awaitable<Result<JobPage>> jobs(JobQuery query) = 0;
  /// How many jobs are in each state, as of the last commit: kept in memory, so it costs nothing and cannot fail.
  virtual JobCounts job_counts() const = 0;
  /// Every job that has not ended, oldest first.
  virtual net::awaitable<Result<std::vector<JobRecord>>> unfinished_jobs() = 0;
  virtual net::awaitable<Result<std::optional<KeyUse>>> idempotency_key(std::string key) = 0;
  virtual net::awaitable<Result<std::vector<WorkerRecord>>> workers(std::string job_id) = 0;
  virtual net::awaitable<Result<std::vector<NodeRecord>>> nodes() = 0;
  virtual net::awaitable<Result<EventPage>> events(EventQuery query) = 0;
  virtual net::awaitable<Result<std::vector<MetricSeries>>> metrics(MetricQuery query) = 0;
  /// The series that a query asks for, as they are now: sorted by name, the job's own before the workers'.
  virtual net::awaitable<Result<std::vector<SeriesRecord>>> series(MetricQuery query) = 0;
  /// Rows of a series from position `after` + 1 on, at most `limit`. If there are fewer than the series had, it has
  /// been deleted.
  virtual net::awaitable<Result<std::vector<MetricRow>>> metric_rows(SeriesRecord series, std::uint64_t after,
                                                                     std::uint32_t limit) = 0;
  /// The rows at which a series goes back to the same or an earlier step, sorted by position.
  virtual net::awaitable<Result<std::vector<StepBack>>> step_backs(SeriesRecord series) = 0;
  /// Of the newest attempt that has reported any, in rank order; only the part that is asked for.
  virtual net::awaitable<Result<std::vector<WorkerTraffic>>> traffic(TrafficQuery query) = 0;
  virtual net::awaitable<Result<std::vector<CheckpointRecord>>> checkpoints(std::string job_id) = 0;
  /// The greatest fencing number committed so far; 0 if there is none.
  virtual net::awaitable<Result<std::uint64_t>> fence() = 0;

  struct StreamPage {
    std::uint64_t oldest = 0;  ///< from here on nothing was dropped to save space; `newest` + 1 if everything was
    std::uint64_t newest = 0;
    std::vector<StreamItem> items;  ///< with sequence > after, oldest first
    bool complete = false;          ///< nothing that is kept lies between the last of `items` and `newest`
  };
  /// Reads at most `limit` items with at most `bytes_max` bytes of data together; the first one whatever its size.
  virtual net::awaitable<Result<StreamPage>> stream(std::uint64_t after, std::uint32_t limit,
                                                    std::size_t bytes_max) = 0;

  /// Called with stream items right after their commit, in sequence order, on the writer's thread, so it must be quick.
  /// Must be set before the first commit.
  using Observer = std::function<void(const std::vector<StreamItem>&)>;
  virtual void observe(Observer observer) = 0;

  /// Finishes the commits under way; later calls fail with cancelled.
  virtual net::awaitable<void> close() = 0;
};

}  // namespace weir::cluster
