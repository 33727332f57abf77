#include "cluster/store/queries.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/errc.hpp"

namespace weir::cluster::queries {
namespace {

using nlohmann::json;

constexpr std::string_view job_columns =
    "number, id, name, state, phase, reason, spec, priority, restarts, created_at, started_at, ended_at, step,"
    " steps_total, summary";

Time to_time(std::int64_t milliseconds) { return Time(std::chrono::milliseconds(milliseconds)); }

std::optional<Time> to_time(std::optional<std::int64_t> milliseconds) {
  return milliseconds ? std::optional(to_time(*milliseconds)) : std::nullopt;
}

std::optional<int> to_int(std::optional<std::int64_t> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

JobRecord read_job(Statement& row) {
  JobRecord job;
  job.id = row.text();
  job.name = row.text();
  job.state = static_cast<JobState>(row.integer());
  job.phase = static_cast<JobPhase>(row.integer());
  job.reason = row.text();
  job.spec = json::parse(row.text());
  job.priority = static_cast<std::int32_t>(row.integer());
  job.restarts = static_cast<std::uint32_t>(row.integer());
  job.created_at = to_time(row.integer());
  job.started_at = to_time(row.optional_integer());
  job.ended_at = to_time(row.optional_integer());
  job.step = static_cast<std::uint64_t>(row.integer());
  job.steps_total = static_cast<std::uint64_t>(row.integer());
  job.summary = json::parse(row.text());
  return job;
}

std::string select_jobs(std::string_view where) {
  return "SELECT " + std::string(job_columns) + " FROM jobs " + std::string(where);
}

std::int64_t parse_cursor(const std::string& cursor) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), number);
  if (error != std::errc{} || end != cursor.data() + cursor.size()) {
    throw SqliteFailure{{Errc::invalid_argument, "\"" + cursor + "\" is not a cursor that a page of jobs gave"}};
  }
  return number;
}

std::string_view column_of(MetricAxis axis) {
  switch (axis) {
    case MetricAxis::wall: return "wall";
    case MetricAxis::bytes: return "bytes";
    default: return "step";
  }
}

/// The SQL source of the points of series ?1. On the step axis, those superseded by a restart are left out: a job that
/// continues from a checkpoint repeats the steps after it. A series that is written rarely keeps those of the attempt
/// before until the new one has written to it. On the time and byte axes they stay, since that time and those bytes
/// were spent.
std::string rows_of_series(Database& database, const MetricQuery& query) {
  if (query.x != MetricAxis::step) return "(SELECT * FROM metrics WHERE series = ?1)";
  Statement& job = database.prepare("SELECT restarts FROM jobs WHERE id = ?");
  const bool restarted = job.bind(query.job_id).step() && job.integer() > 0;
  job.reset();
  if (!restarted) return "(SELECT * FROM metrics WHERE series = ?1)";
  return "(SELECT * FROM (SELECT *, min(step) OVER (ORDER BY position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND"
         " 1 PRECEDING) AS later FROM metrics WHERE series = ?1) WHERE later IS NULL OR step < later)";
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

}  // namespace

std::optional<JobRecord> job(Database& database, const std::string& id) {
  Statement& row = database.prepare(select_jobs("WHERE id = ? AND removed = 0"));
  if (!row.bind(id).step()) return std::nullopt;
  row.integer();
  return read_job(row);
}

JobCounts count_jobs(Database& database, const std::string& text) {
  JobCounts counts;
  for (const auto state :
       {JobState::pending, JobState::running, JobState::succeeded, JobState::failed, JobState::stopped}) {
    counts[state] = 0;
  }
  Statement& rows = database.prepare(
      "SELECT state, count(*) FROM jobs WHERE removed = 0 AND (?1 = '' OR instr(lower(name), lower(?1)) > 0"
      " OR instr(lower(id), lower(?1)) > 0) GROUP BY state");
  rows.bind(text);
  while (rows.step()) {
    const auto state = static_cast<JobState>(rows.integer());
    counts[state] = static_cast<std::uint64_t>(rows.integer());
  }
  return counts;
}

std::string sql_of_jobs(const JobQuery& query) {
  // A condition that is not wanted is not written: with "?2 IS NULL OR" SQLite would use no index.
  return select_jobs("WHERE " + std::string(query.state ? "state = ?2 AND " : "") +
                     "number < ?1 AND removed = 0"
                     " AND (?3 = '' OR instr(lower(name), lower(?3)) > 0 OR instr(lower(id), lower(?3)) > 0)"
                     " ORDER BY number DESC LIMIT ?4");
}

JobPage jobs(Database& database, const JobQuery& query) {
  Statement& rows = database.prepare(sql_of_jobs(query));
  rows.bind(query.cursor.empty() ? std::numeric_limits<std::int64_t>::max() : parse_cursor(query.cursor));
  query.state ? rows.bind(static_cast<std::int64_t>(*query.state)) : rows.bind(std::nullopt);  // then no ?2 is there
  rows.bind(query.text).bind(static_cast<std::int64_t>(query.limit) + 1);
  JobPage page;
  std::int64_t last = 0;
  while (rows.step()) {
    if (page.jobs.size() == query.limit) {  // there is one more than asked for: a next page
      page.next = std::to_string(last);
      break;
    }
    last = rows.integer();
    page.jobs.push_back(read_job(rows));
  }
  return page;
}

std::vector<JobRecord> unfinished_jobs(Database& database) {
  std::vector<JobRecord> found;
  Statement& rows = database.prepare(select_jobs("WHERE state < ? AND removed = 0 ORDER BY number"));
  rows.bind(static_cast<std::int64_t>(JobState::succeeded));
  while (rows.step()) {
    rows.integer();
    found.push_back(read_job(rows));
  }
  return found;
}

std::optional<KeyUse> idempotency_key(Database& database, const std::string& key) {
  Statement& row = database.prepare("SELECT job, body_hash FROM idempotency_keys WHERE key = ?");
  if (!row.bind(key).step()) return std::nullopt;
  KeyUse use;
  use.job_id = row.text();
  use.body_hash = row.text();
  return use;
}

std::vector<WorkerRecord> workers(Database& database, const std::string& job_id) {
  std::vector<WorkerRecord> found;
  Statement& rows = database.prepare(
      "SELECT id, job, rank, role, node_id, node, pid, state, exit_code, signal, started_at, ended_at, step, figures,"
      " gpus FROM workers WHERE job = ?1 AND number IN (SELECT max(number) FROM workers WHERE job = ?1 GROUP BY rank)"
      " ORDER BY rank");
  rows.bind(job_id);
  while (rows.step()) {
    WorkerRecord worker;
    worker.id = rows.text();
    worker.job_id = rows.text();
    worker.rank = static_cast<std::uint32_t>(rows.integer());
    worker.role = static_cast<protocol::Role>(rows.integer());
    worker.node_id = rows.text();
    worker.node = rows.text();
    worker.pid = static_cast<std::uint32_t>(rows.integer());
    worker.state = static_cast<WorkerState>(rows.integer());
    worker.exit_code = to_int(rows.optional_integer());
    worker.signal = to_int(rows.optional_integer());
    worker.started_at = to_time(rows.optional_integer());
    worker.ended_at = to_time(rows.optional_integer());
    worker.step = static_cast<std::uint64_t>(rows.integer());
    worker.figures = json::parse(rows.text());
    for (const json& share : json::parse(rows.text())) worker.gpus.push_back({share.at("uuid"), share.at("share")});
    found.push_back(std::move(worker));
  }
  return found;
}

std::vector<NodeRecord> nodes(Database& database) {
  std::vector<NodeRecord> found;
  Statement& rows = database.prepare(
      "SELECT id, name, host, state, lease_id, resources, labels, version, pid, joined_at, lost_at, reason, drained"
      " FROM nodes ORDER BY joined_at, id");
  while (rows.step()) {
    NodeRecord node;
    node.id = rows.text();
    node.name = rows.text();
    node.host = rows.text();
    node.state = static_cast<NodeState>(rows.integer());
    node.lease_id = static_cast<std::uint64_t>(rows.integer());
    node.resources = json::parse(rows.text()).get<protocol::Resources>();
    node.labels = json::parse(rows.text()).get<std::map<std::string, std::string>>();
    node.version = rows.text();
    node.pid = static_cast<std::uint32_t>(rows.integer());
    node.joined_at = to_time(rows.integer());
    node.lost_at = to_time(rows.optional_integer());
    node.reason = rows.text();
    node.drained = rows.integer() != 0;
    found.push_back(std::move(node));
  }
  return found;
}

EventPage events(Database& database, const EventQuery& query) {
  const auto begin = query.newest_first && query.cursor == 0 ? std::numeric_limits<std::int64_t>::max()
                                                             : static_cast<std::int64_t>(query.cursor);
  Statement& rows = database.prepare(
      std::string("SELECT id, time, severity, kind, message, node, worker FROM events WHERE job IS ? AND ") +
      (query.newest_first ? "id < ? ORDER BY id DESC LIMIT ?" : "id > ? ORDER BY id LIMIT ?"));
  query.job_id.empty() ? rows.bind(std::nullopt) : rows.bind(query.job_id);
  rows.bind(begin).bind(static_cast<std::int64_t>(query.limit) + 1);
  EventPage page;
  while (rows.step()) {
    if (page.events.size() == query.limit) {
      page.next = page.events.back().sequence;
      break;
    }
    EventRecord event;
    event.sequence = static_cast<std::uint64_t>(rows.integer());
    event.time = to_time(rows.integer());
    event.job_id = query.job_id;
    event.severity = static_cast<Severity>(rows.integer());
    event.kind = rows.text();
    event.message = rows.text();
    event.node = rows.text();
    if (const auto worker = rows.optional_integer()) event.worker = static_cast<std::uint32_t>(*worker);
    page.events.push_back(std::move(event));
  }
  return page;
}

std::vector<SeriesRecord> series(Database& database, const MetricQuery& query) {
  std::vector<SeriesRecord> found;
  Statement& rows = database.prepare(
      "SELECT id, name, worker, (SELECT coalesce(max(position), 0) FROM metrics WHERE metrics.series = series.id)"
      " FROM series WHERE job = ?1 AND (?2 OR worker = ?3) ORDER BY name, worker");
  rows.bind(query.job_id).bind(query.all_workers ? 1 : 0);
  rows.bind(query.worker ? static_cast<std::int64_t>(*query.worker) : std::int64_t{-1});
  while (rows.step()) {
    SeriesRecord one;
    one.id = rows.integer();
    one.name = rows.text();
    if (const auto worker = rows.integer(); worker >= 0) one.worker = static_cast<std::uint32_t>(worker);
    one.rows = static_cast<std::uint64_t>(rows.integer());
    const bool wanted =
        query.names.empty() || std::find(query.names.begin(), query.names.end(), one.name) != query.names.end();
    if (wanted) found.push_back(std::move(one));
  }
  return found;
}

std::vector<MetricRow> metric_rows(Database& database, const SeriesRecord& series, std::uint64_t after,
                                   std::uint32_t limit) {
  std::vector<MetricRow> found;
  Statement& rows = database.prepare(
      "SELECT step, wall, bytes, value FROM metrics WHERE series = ?1 AND position > ?2 AND position <= ?3"
      " ORDER BY position LIMIT ?4");
  rows.bind(series.id).bind(after).bind(series.rows).bind(limit);
  while (rows.step()) {
    MetricRow row{series.name, series.worker};
    row.step = static_cast<std::uint64_t>(rows.integer());
    row.wall_seconds = rows.real();
    row.wire_bytes = static_cast<std::uint64_t>(rows.integer());
    row.value = rows.real();
    found.push_back(std::move(row));
  }
  return found;
}

std::vector<StepBack> step_backs(Database& database, const SeriesRecord& series) {
  std::vector<StepBack> found;
  Statement& rows = database.prepare(
      "SELECT position, step FROM (SELECT position, step, lag(step) OVER (ORDER BY position) AS before FROM metrics"
      " WHERE series = ?1 AND position <= ?2) WHERE step <= before");
  rows.bind(series.id).bind(series.rows);
  while (rows.step()) {
    const auto position = static_cast<std::uint64_t>(rows.integer());
    found.push_back({position, static_cast<std::uint64_t>(rows.integer())});
  }
  return found;
}

std::vector<MetricSeries> metrics(Database& database, const MetricQuery& query) {
  const auto found = series(database, query);
  const auto share = metric_points_max / std::max<std::size_t>(1, found.size());
  const auto points = static_cast<std::uint32_t>(std::clamp<std::size_t>(share, 1, query.points));
  const std::string x(column_of(query.x));
  const double from = query.from.value_or(-std::numeric_limits<double>::infinity());
  const double to = query.to.value_or(std::numeric_limits<double>::infinity());
  const std::string rows_of = rows_of_series(database, query);

  // One range for all series, so that their buckets have the same borders.
  Range range;
  std::map<std::int64_t, std::int64_t> counts;
  for (const auto& one : found) {
    Statement& row = database.prepare("SELECT count(*), min(" + x + "), max(" + x + ") FROM " + rows_of + " WHERE " +
                                      x + " BETWEEN ?2 AND ?3");
    row.bind(one.id).bind(from).bind(to);
    if (!row.step()) continue;
    counts[one.id] = row.integer();
    if (counts[one.id] == 0) continue;
    range.low = std::min(range.low, row.real());
    range.high = std::max(range.high, row.real());
  }
  const double width = range.high > range.low ? (range.high - range.low) / points : 1;

  // Least and greatest value by bucket; the last one by its position. A series with no more rows than buckets is
  // returned as it is: each row is its own bucket.
  const std::string sql =
      "WITH buckets AS (SELECT min(value) AS low, max(value) AS high, max(position) AS last"
      " FROM " +
      rows_of + " WHERE " + x +
      " BETWEEN ?2 AND ?3 GROUP BY"
      " CASE WHEN ?4 THEN position ELSE min(cast((" +
      x +
      " - ?5) / ?6 AS INTEGER), ?7 - 1) END)"
      " SELECT " +
      x +
      ", low, high, value FROM buckets JOIN metrics"
      " ON series = ?1 AND position = last ORDER BY last";
  std::vector<MetricSeries> result;
  for (const auto& one : found) {
    MetricSeries series{one.name, one.worker, {}};
    Statement& rows = database.prepare(sql);
    rows.bind(one.id).bind(from).bind(to).bind(static_cast<std::int64_t>(counts[one.id] <= points ? 1 : 0));
    rows.bind(range.low).bind(width).bind(points);
    while (rows.step()) {
      MetricBucket bucket;
      bucket.x = rows.real();
      bucket.min = rows.real();
      bucket.max = rows.real();
      bucket.last = rows.real();
      series.points.push_back(bucket);
    }
    result.push_back(std::move(series));
  }
  return result;
}

std::vector<WorkerTraffic> traffic(Database& database, const TrafficQuery& query) {
  const auto if_wanted = [](bool wanted, const char* column) { return wanted ? std::string(column) : "NULL"; };
  std::vector<WorkerTraffic> found;
  Statement& rows = database.prepare(
      "SELECT attempt, worker, " + if_wanted(query.totals, "totals") + ", " + if_wanted(query.sampled, "sampled") +
      ", " + if_wanted(query.slowest, "slowest") + ", " + if_wanted(query.totals, "plan") +
      " FROM traffic WHERE job = ?1 AND attempt = (SELECT max(attempt) FROM traffic WHERE job = ?1)" +
      (query.worker ? " AND worker = ?2" : "") + " ORDER BY worker");
  rows.bind(query.job_id);
  if (query.worker) rows.bind(*query.worker);
  const auto next = [&rows](auto read) {
    const bool missing = rows.is_null();
    const auto text = rows.text();
    return missing ? std::nullopt : std::optional(read(text));
  };
  while (rows.step()) {
    WorkerTraffic one;
    one.job_id = query.job_id;
    one.attempt = static_cast<std::uint64_t>(rows.integer());
    one.worker = static_cast<std::uint32_t>(rows.integer());
    one.totals = next(totals_of).value_or(protocol::TrafficTotals());
    one.sampled = next(timeline_of);
    one.slowest = next(timeline_of);
    one.plan = next(plan_of);
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<CheckpointRecord> checkpoints(Database& database, const std::string& job_id) {
  std::vector<CheckpointRecord> found;
  Statement& rows = database.prepare("SELECT step, bytes, created_at FROM checkpoints WHERE job = ? ORDER BY step");
  rows.bind(job_id);
  while (rows.step()) {
    CheckpointRecord checkpoint;
    checkpoint.job_id = job_id;
    checkpoint.step = static_cast<std::uint64_t>(rows.integer());
    checkpoint.bytes = static_cast<std::uint64_t>(rows.integer());
    checkpoint.created_at = to_time(rows.integer());
    found.push_back(checkpoint);
  }
  return found;
}

std::uint64_t fence(Database& database) {
  return static_cast<std::uint64_t>(database.integer("SELECT value FROM facts WHERE name = 'fence'"));
}

Store::StreamPage stream(Database& database, std::uint64_t after, std::uint32_t limit, std::size_t bytes_max) {
  Store::StreamPage page;
  // sqlite_sequence knows the newest number also when the table has been emptied.
  page.newest = static_cast<std::uint64_t>(database.integer("SELECT seq FROM sqlite_sequence WHERE name = 'stream'"));
  // Not the first row's number: rows of deleted jobs are gone, and a reader that continues there does not need them.
  page.oldest =
      static_cast<std::uint64_t>(database.integer("SELECT value FROM facts WHERE name = 'stream_trimmed'")) + 1;
  Statement& rows =
      database.prepare("SELECT sequence, kind, job, data FROM stream WHERE sequence > ? ORDER BY sequence LIMIT ?");
  rows.bind(after).bind(static_cast<std::int64_t>(limit) + 1);
  page.complete = true;
  std::size_t bytes = 0;
  while (rows.step()) {
    StreamItem item;
    item.sequence = static_cast<std::uint64_t>(rows.integer());
    item.kind = static_cast<StreamKind>(rows.integer());
    item.job_id = rows.text();
    item.data = rows.text();
    bytes += item.data.size();
    if (page.items.size() == limit || (!page.items.empty() && bytes > bytes_max)) {
      page.complete = false;
      break;
    }
    page.items.push_back(std::move(item));
  }
  return page;
}

}  // namespace weir::cluster::queries
