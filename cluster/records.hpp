#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gpu.hpp"
#include "protocol/resources.hpp"
#include "protocol/roles.hpp"

/// The head's records as values: rows of the store, answers of the API and items of the stream.
namespace weir::cluster {

/// UTC wall time, to the millisecond.
using Time = std::chrono::sys_time<std::chrono::milliseconds>;

/// ISO-8601 in UTC with milliseconds, as every API answer prints it: 2025-01-31T12:00:00.000Z.
std::string to_iso8601(Time time);

enum class JobState : std::uint8_t { pending, running, succeeded, failed, stopped };
inline bool terminal(JobState s) { return s >= JobState::succeeded; }
std::string_view to_string(JobState state);  ///< PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED
std::optional<JobState> job_state(std::string_view name);

/// The phase of a job that has not ended; `none` once it has.
enum class JobPhase : std::uint8_t { none, queued, placing, spawning, initialising, training, recovering, stopping };
std::string_view to_string(JobPhase phase);  ///< lower case; "" for none

enum class WorkerState : std::uint8_t { starting, running, exited };
std::string_view to_string(WorkerState state);

/// One process of a job, a worker or a server: the latest one of its rank.
struct WorkerRecord {
  std::string id;
  std::string job_id;
  std::uint32_t rank = 0;
  protocol::Role role = protocol::Role::worker;
  std::string node_id;
  std::string node;                      ///< the node's name
  std::vector<protocol::GpuShare> gpus;  ///< booked for it
  std::uint32_t pid = 0;
  WorkerState state = WorkerState::starting;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<Time> started_at;
  std::optional<Time> ended_at;
  std::uint64_t step = 0;  ///< completed
  /// Last value of each of its metrics by name, and bytes_sent_after_warmup, bytes_dense_after_warmup if it has them.
  nlohmann::json figures = nlohmann::json::object();
};

struct JobRecord {
  std::string id;
  std::string name;
  JobState state = JobState::pending;
  JobPhase phase = JobPhase::queued;
  std::string reason;   ///< why it waits, or the cause chain of its end; "" when there is nothing to say
  nlohmann::json spec;  ///< normalized: every default filled in
  std::int32_t priority = 0;
  std::uint32_t restarts = 0;
  Time created_at{};
  std::optional<Time> started_at;
  std::optional<Time> ended_at;
  std::uint64_t step = 0;
  std::uint64_t steps_total = 0;  ///< 0 until the workers have reported it
  /// accuracy, test_loss, loss, samples_per_second, bytes_sent, bytes_received, bytes_dense, compression_ratio, and
  /// bytes_sent_after_warmup, bytes_dense_after_warmup, compression_ratio_after_warmup: sums over the workers (loss:
  /// their mean). first_step_seconds: from the submit until the head knew of a step completed by all workers.
  /// workers: [{"rank", "bytes_sent", "bytes_dense", ...}]. Absent = not measured (yet).
  nlohmann::json summary = nlohmann::json::object();
};

struct JobQuery {
  std::optional<JobState> state;
  std::string text;          ///< part of the id or name, case-insensitive; "" = all
  std::uint32_t limit = 50;  ///< 1..1000
  std::string cursor;        ///< `next` of the page before; "" = from the newest
};

/// The number of jobs in each state; every state has an entry.
using JobCounts = std::map<JobState, std::uint64_t>;

/// Totals over all jobs.
struct JobTotals {
  JobCounts counts;
  // Sums over the jobs that run now, from their workers' last reports; see JobRecord::summary.
  double bytes_sent = 0;
  double bytes_dense = 0;
  double samples_per_second = 0;
};

struct JobPage {
  std::vector<JobRecord> jobs;  ///< newest first
  JobCounts counts;             ///< of all jobs that match the query's text, on every page and in every state
  std::string next;             ///< cursor of the next page, "" if this is the last
};

enum class NodeState : std::uint8_t { alive, draining, lost };
std::string_view to_string(NodeState state);

/// A GPU of a node.
struct GpuRecord {
  protocol::Gpu gpu;
  bool lost = false;           ///< the node does not find it any more; nothing is booked on it
  protocol::GpuSample sample;  ///< now: nothing in it while the node is silent
};

struct NodeRecord {
  std::string id;
  std::string name;
  std::string host;
  NodeState state = NodeState::alive;
  std::uint64_t lease_id = 0;
  protocol::Resources resources;
  protocol::Resources used;     ///< granted to workers now
  std::vector<GpuRecord> gpus;  ///< known while the node is in the cluster
  std::map<std::string, std::string> labels;
  std::string version;
  std::uint32_t pid = 0;
  Time joined_at{};
  std::optional<Time> lost_at;
  std::string reason;    ///< why it was lost, or ""
  bool drained = false;  ///< takes nothing new, also when it joins again
  Time heartbeat_at{};
  double cpu_load = 0;  ///< cores
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t network_sent_bytes = 0;
  std::uint64_t network_received_bytes = 0;
  std::vector<WorkerRecord> workers;  ///< placed on it now
};

enum class Severity : std::uint8_t { info, warning, error };
std::string_view to_string(Severity severity);

/// Something that happened to the cluster (job_id empty) or to a job.
struct EventRecord {
  std::uint64_t sequence = 0;  ///< assigned by the store, ascending
  Time time{};
  std::string job_id;
  Severity severity = Severity::info;
  /// For programs: job.state, worker.started, worker.exited, node.joined, node.lost, node.forgotten,
  /// checkpoint.saved, exchange.planned, ...
  std::string kind;
  std::string message;
  std::string node;  ///< name, or ""
  std::optional<std::uint32_t> worker;
};

struct EventQuery {
  std::string job_id;         ///< "" = those of the cluster
  std::uint64_t cursor = 0;   ///< `next` of the page before; 0 = from the first one
  std::uint32_t limit = 100;  ///< 1..1000
  bool newest_first = false;  ///< else oldest first
};

struct EventPage {
  std::vector<EventRecord> events;
  std::uint64_t next = 0;  ///< pass as `cursor` for what follows; 0 if this was the last page
};

/// One value of a time series. `worker` is a rank, or absent for the job as a whole.
struct MetricRow {
  std::string name;
  std::optional<std::uint32_t> worker;
  std::uint64_t step = 0;
  double wall_seconds = 0;
  std::uint64_t wire_bytes = 0;
  double value = 0;
};

enum class MetricAxis : std::uint8_t { step, wall, bytes };
std::string_view to_string(MetricAxis axis);
std::optional<MetricAxis> metric_axis(std::string_view name);

struct MetricQuery {
  std::string job_id;
  std::vector<std::string> names;  ///< empty = all
  MetricAxis x = MetricAxis::step;
  std::optional<double> from;  ///< inclusive
  std::optional<double> to;    ///< inclusive
  /// Number of buckets over the whole range, 1..5000. Each series gets fewer if all together would have more points
  /// than metric_points_max.
  std::uint32_t points = 500;
  bool all_workers = true;
  std::optional<std::uint32_t> worker;  ///< unless all_workers: a rank, or absent for the series of the whole job
};

/// The most points in one down-sampled answer, over all of its series.
inline constexpr std::size_t metric_points_max = 100'000;

/// One bucket: its last x, and the least, greatest and last value in it. Extremes always survive down-sampling.
struct MetricBucket {
  double x = 0;
  double min = 0;
  double max = 0;
  double last = 0;

  bool operator==(const MetricBucket&) const = default;
};

struct MetricSeries {
  std::string name;
  std::optional<std::uint32_t> worker;
  std::vector<MetricBucket> points;  ///< oldest first
};

/// A time series as it was at one moment. Rows are added to it and never changed, so the rows of that moment can be
/// read later, part by part.
struct SeriesRecord {
  std::int64_t id = 0;  ///< never given to another series
  std::string name;
  std::optional<std::uint32_t> worker;
  std::uint64_t rows = 0;  ///< their positions are 1 to `rows`, in order of arrival
};

/// A row of a series that follows a row of the same or a later step: from here on, a restarted job repeats steps.
struct StepBack {
  std::uint64_t position = 0;
  std::uint64_t step = 0;
};

/// A piece of a worker's output, cut at byte offsets.
struct LogSlice {
  std::string text;
  std::uint64_t offset = 0;  ///< of the first byte of `text`
  std::uint64_t next = 0;    ///< offset to ask for next
  std::uint64_t size = 0;    ///< bytes there are now
  bool complete = false;     ///< the job has ended: nothing will be appended
};

/// How much a process of a job has printed, in bytes.
struct LogSize {
  std::uint32_t worker = 0;  ///< rank
  std::uint64_t size = 0;
};

struct CheckpointRecord {
  std::string job_id;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  Time created_at{};
};

/// An actor somewhere in the cluster.
struct ActorRecord {
  std::string name;  ///< unique: "head/membership", "<worker id>/trainer", ...
  std::string type;
  std::string state;
  std::string node;                            ///< node name, "" in the head
  std::string job_id;                          ///< or ""
  std::optional<std::uint64_t> mailbox_depth;  ///< counted in the head's own process only
  std::optional<std::uint64_t> messages_handled;
};

struct ActorPage {
  std::vector<ActorRecord> actors;  ///< by name
  std::string next;
};

/// How much of a GPU the workers on its node have booked.
double booked_of(const NodeRecord& node, const GpuRecord& gpu);

/// The kinds of stream items. Their names (to_string) are the SSE event names; the comments describe the data.
enum class StreamKind : std::uint8_t {
  node,     ///< a node as /nodes/{id} returns it. Topic cluster. Heartbeats are transient, changes of state are kept
  event,    ///< an event as /events returns it. Topics cluster (no job) or job:ID
  job,      ///< a job as /jobs returns it, after a change. Topics jobs, job:ID
  job_end,  ///< the same, once, when it has ended: nothing about the job follows. Topics jobs, job:ID, logs:ID
  /// {"job", "restarts", "points": [[name, worker|null, step, wall_seconds, wire_bytes, value], ...]}. Topic job:ID.
  /// After a restart a series goes back to an earlier step, and its older points of that step and later ones are void.
  metrics,
  checkpoint,   ///< {"job", "step", "bytes", "created_at"}. Topic job:ID
  log,          ///< {"job", "worker", "offset", "text"}. Topic logs:ID
  job_removed,  ///< {"id"}: the job and all that was kept of it are gone. Topics jobs, job:ID
  /// {"id"}: the lost node is forgotten. One that joins with its name is another node, with another id. Topic cluster
  node_removed,
};
std::string_view to_string(StreamKind kind);
struct StreamItem {
  /// The SSE id: grows by one for every item kept in the store, survives restarts. 0 = transient, never replayed.
  std::uint64_t sequence = 0;
  StreamKind kind = StreamKind::event;
  std::string job_id;  ///< "" for the cluster's own
  std::string data;    ///< JSON text, one line
};

/// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const nlohmann::json& value);

nlohmann::json to_json(const JobRecord& job);
nlohmann::json to_json(const std::vector<protocol::GpuShare>& gpus);
nlohmann::json to_json(const WorkerRecord& worker);
nlohmann::json to_json(const NodeRecord& node);
nlohmann::json to_json(const EventRecord& event);
nlohmann::json to_json(const CheckpointRecord& checkpoint);
nlohmann::json to_json(const ActorRecord& actor);

}  // namespace weir::cluster
