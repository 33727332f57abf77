#include "cluster/store/changes.hpp"

#include <iterator>
#include <optional>
#include <type_traits>

namespace weir::cluster {
namespace {

std::int64_t to_integer(Time time) { return time.time_since_epoch().count(); }

std::optional<std::int64_t> to_integer(const std::optional<Time>& time) {
  return time ? std::optional(to_integer(*time)) : std::nullopt;
}

template <class Enum>
  requires std::is_enum_v<Enum>
std::int64_t to_integer(Enum value) {
  return static_cast<std::int64_t>(value);
}

void publish(Database& database, StreamKind kind, const std::string& job_id, std::string data,
             std::vector<StreamItem>& published) {
  database
      .prepare(
          "INSERT INTO stream (kind, job, bytes, bytes_before, data) VALUES (?1, ?2, ?3,"
          " coalesce((SELECT bytes_before + bytes FROM stream ORDER BY sequence DESC LIMIT 1), 0), ?4)")
      .bind(to_integer(kind))
      .bind(job_id)
      .bind(static_cast<std::uint64_t>(data.size()))
      .bind(data)
      .run();
  const auto sequence = static_cast<std::uint64_t>(database.last_insert_rowid());
  published.push_back({sequence, kind, job_id, std::move(data)});
}

std::optional<JobState> state_of(Database& database, const std::string& job_id) {
  Statement& row = database.prepare("SELECT state FROM jobs WHERE id = ? AND removed = 0");
  row.bind(job_id);
  const auto state = row.step() ? std::optional(static_cast<JobState>(row.integer())) : std::nullopt;
  row.reset();
  return state;
}

/// One overload per change.
struct Applier {
  Database& database;
  Effects& effects;

  void operator()(const change::AddJob& add) {
    const JobRecord& job = add.job;
    database
        .prepare(
            "INSERT INTO jobs (id, name, state, phase, reason, spec, priority, restarts, created_at, started_at,"
            " ended_at, step, steps_total, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(job.id)
        .bind(job.name)
        .bind(to_integer(job.state))
        .bind(to_integer(job.phase))
        .bind(job.reason)
        .bind(to_text(job.spec))
        .bind(job.priority)
        .bind(job.restarts)
        .bind(to_integer(job.created_at))
        .bind(to_integer(job.started_at))
        .bind(to_integer(job.ended_at))
        .bind(job.step)
        .bind(job.steps_total)
        .bind(to_text(job.summary))
        .run();
    ++effects.jobs[job.state];
    if (add.idempotency_key.empty()) return;
    database.prepare("INSERT INTO idempotency_keys (key, job, body_hash) VALUES (?, ?, ?)")
        .bind(add.idempotency_key)
        .bind(job.id)
        .bind(add.body_hash)
        .run();
  }

  void operator()(const change::PutJob& put) {
    const JobRecord& job = put.job;
    const auto before = state_of(database, job.id);
    if (!before) return;  // it was removed meanwhile
    --effects.jobs[*before];
    ++effects.jobs[job.state];
    database
        .prepare(
            "UPDATE jobs SET state = ?, phase = ?, reason = ?, restarts = ?, started_at = ?, ended_at = ?,"
            " step = ?, steps_total = ?, summary = ? WHERE id = ?")
        .bind(to_integer(job.state))
        .bind(to_integer(job.phase))
        .bind(job.reason)
        .bind(job.restarts)
        .bind(to_integer(job.started_at))
        .bind(to_integer(job.ended_at))
        .bind(job.step)
        .bind(job.steps_total)
        .bind(to_text(job.summary))
        .bind(job.id)
        .run();
  }

  void operator()(const change::RemoveJob& remove) {
    if (const auto before = state_of(database, remove.id)) --effects.jobs[*before];
    effects.removes = true;
    database.prepare("UPDATE jobs SET removed = 1 WHERE id = ?").bind(remove.id).run();
    database.prepare("DELETE FROM idempotency_keys WHERE job = ?").bind(remove.id).run();
    database.prepare("DELETE FROM stream WHERE job = ?").bind(remove.id).run();
  }

  void operator()(const change::PutWorker& put) {
    const WorkerRecord& worker = put.worker;
    database
        .prepare(
            "INSERT INTO workers (id, job, rank, role, node_id, node, pid, state, exit_code, signal, started_at,"
            " ended_at, step, figures, gpus) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, state = excluded.state,"
            " exit_code = excluded.exit_code, signal = excluded.signal, started_at = excluded.started_at,"
            " ended_at = excluded.ended_at, step = excluded.step, figures = excluded.figures")
        .bind(worker.id)
        .bind(worker.job_id)
        .bind(worker.rank)
        .bind(to_integer(worker.role))
        .bind(worker.node_id)
        .bind(worker.node)
        .bind(worker.pid)
        .bind(to_integer(worker.state))
        .bind(worker.exit_code)
        .bind(worker.signal)
        .bind(to_integer(worker.started_at))
        .bind(to_integer(worker.ended_at))
        .bind(worker.step)
        .bind(to_text(worker.figures))
        .bind(to_text(to_json(worker.gpus)))
        .run();
  }

  void operator()(const change::PutNode& put) {
    const NodeRecord& node = put.node;
    database
        .prepare(
            "INSERT INTO nodes (id, name, host, state, lease_id, resources, labels, version, pid, joined_at, lost_at,"
            " reason, drained) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " host = excluded.host, state = excluded.state, lease_id = excluded.lease_id, resources = "
            "excluded.resources,"
            " labels = excluded.labels, version = excluded.version, pid = excluded.pid,"
            " joined_at = excluded.joined_at, lost_at = excluded.lost_at, reason = excluded.reason,"
            " drained = excluded.drained")
        .bind(node.id)
        .bind(node.name)
        .bind(node.host)
        .bind(to_integer(node.state))
        .bind(node.lease_id)
        .bind(to_text(node.resources))
        .bind(to_text(node.labels))
        .bind(node.version)
        .bind(node.pid)
        .bind(to_integer(node.joined_at))
        .bind(to_integer(node.lost_at))
        .bind(node.reason)
        .bind(std::uint32_t{node.drained})
        .run();
  }

  void operator()(const change::RemoveNode& remove) {
    database.prepare("DELETE FROM nodes WHERE id = ?").bind(remove.id).run();
    publish(database, StreamKind::node_removed, {}, to_text({{"id", remove.id}}), effects.published);
  }

  void operator()(const change::AddEvent& add) {
    EventRecord event = add.event;
    Statement& insert = database.prepare(
        "INSERT INTO events (time, job, severity, kind, message, node, worker) VALUES (?, ?, ?, ?, ?, ?, ?)");
    insert.bind(to_integer(event.time));
    event.job_id.empty() ? insert.bind(std::nullopt) : insert.bind(event.job_id);
    insert.bind(to_integer(event.severity)).bind(event.kind).bind(event.message).bind(event.node).bind(event.worker);
    insert.run();
    event.sequence = static_cast<std::uint64_t>(database.last_insert_rowid());
    if (event.job_id.empty()) ++effects.cluster_events;
    publish(database, StreamKind::event, event.job_id, to_text(to_json(event)), effects.published);
  }

  void operator()(const change::AddMetrics& add) {
    for (const MetricRow& row : add.rows) {
      const auto series = series_id(add.job_id, row);
      database
          .prepare(
              "INSERT INTO metrics (series, position, step, wall, bytes, value) VALUES (?1,"
              " (SELECT coalesce(max(position), 0) + 1 FROM metrics WHERE series = ?1), ?2, ?3, ?4, ?5)")
          .bind(series)
          .bind(row.step)
          .bind(row.wall_seconds)
          .bind(row.wire_bytes)
          .bind(row.value)
          .run();
    }
  }

  void operator()(const change::PutTraffic& put) {
    const WorkerTraffic& traffic = put.traffic;
    const auto text_or_null = [](const auto& part) { return part ? std::optional(to_text(*part)) : std::nullopt; };
    database.prepare("DELETE FROM traffic WHERE job = ? AND attempt < ?")
        .bind(traffic.job_id)
        .bind(traffic.attempt)
        .run();
    database
        .prepare(
            "INSERT INTO traffic (job, attempt, worker, totals, sampled, slowest, plan) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET totals = excluded.totals, sampled = coalesce(excluded.sampled, sampled),"
            " slowest = coalesce(excluded.slowest, slowest), plan = coalesce(excluded.plan, plan)")
        .bind(traffic.job_id)
        .bind(traffic.attempt)
        .bind(traffic.worker)
        .bind(to_text(traffic.totals))
        .bind(text_or_null(traffic.sampled))
        .bind(text_or_null(traffic.slowest))
        .bind(text_or_null(traffic.plan))
        .run();
  }

  void operator()(const change::AddCheckpoint& add) {
    const CheckpointRecord& checkpoint = add.checkpoint;
    database
        .prepare(
            "INSERT INTO checkpoints (job, step, bytes, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET bytes = excluded.bytes, created_at = excluded.created_at")
        .bind(checkpoint.job_id)
        .bind(checkpoint.step)
        .bind(checkpoint.bytes)
        .bind(to_integer(checkpoint.created_at))
        .run();
  }

  void operator()(const change::RemoveCheckpoint& remove) {
    database.prepare("DELETE FROM checkpoints WHERE job = ? AND step = ?").bind(remove.job_id).bind(remove.step).run();
  }

  void operator()(const change::Publish& item) {
    publish(database, item.kind, item.job_id, item.data, effects.published);
  }

  void operator()(const change::PutFence& put) {
    database
        .prepare(
            "INSERT INTO facts (name, value) VALUES ('fence', ?)"
            " ON CONFLICT DO UPDATE SET value = max(value, excluded.value)")
        .bind(put.fence)
        .run();
  }

  std::int64_t series_id(const std::string& job_id, const MetricRow& row) {
    const std::int64_t worker = row.worker ? static_cast<std::int64_t>(*row.worker) : -1;
    Statement& find = database.prepare("SELECT id FROM series WHERE job = ? AND name = ? AND worker = ?");
    find.bind(job_id).bind(row.name).bind(worker);
    if (find.step()) {
      const auto id = find.integer();
      find.reset();
      return id;
    }
    find.reset();
    database.prepare("INSERT INTO series (job, name, worker) VALUES (?, ?, ?)")
        .bind(job_id)
        .bind(row.name)
        .bind(worker)
        .run();
    return database.last_insert_rowid();
  }
};

}  // namespace

void Effects::append(Effects more) {
  published.insert(published.end(), std::make_move_iterator(more.published.begin()),
                   std::make_move_iterator(more.published.end()));
  for (const auto& [state, count] : more.jobs) jobs[state] += count;
  removes = removes || more.removes;
  cluster_events += more.cluster_events;
}

void apply(Database& database, const Change& change, Effects& effects) {
  std::visit(Applier{database, effects}, change);
}

bool has_removed(Database& database) {
  return database.integer("SELECT EXISTS (SELECT 1 FROM jobs WHERE removed = 1)") != 0;
}

bool clear_removed(Database& database, std::int64_t rows_max) {
  Statement& removed = database.prepare("SELECT id FROM jobs WHERE removed = 1 ORDER BY number LIMIT 1");
  const auto job = removed.step() ? std::optional(removed.text()) : std::nullopt;
  removed.reset();
  if (!job) return false;
  while (rows_max > 0) {
    Statement& some = database.prepare(
        "SELECT id, (SELECT coalesce(max(position), 0) FROM metrics WHERE series = id) FROM series WHERE job = ? LIMIT "
        "1");
    if (!some.bind(*job).step()) {
      some.reset();
      database.prepare("DELETE FROM jobs WHERE id = ?").bind(*job).run();  // the rows of other tables cascade
      return has_removed(database);
    }
    const auto series = some.integer();
    const auto rows = some.integer();  // their positions are 1 to this, whoever has deleted some of them
    some.reset();
    // The last ones first: a reader that finds fewer than there were knows that the series is being deleted.
    database.prepare("DELETE FROM metrics WHERE series = ? AND position > ?").bind(series).bind(rows - rows_max).run();
    if (rows <= rows_max) database.prepare("DELETE FROM series WHERE id = ?").bind(series).run();
    rows_max -= rows + 1;
  }
  return true;
}

void touch(Database& database) {
  database.prepare("INSERT INTO facts (name, value) VALUES ('touched', 1) ON CONFLICT DO UPDATE SET value = value + 1")
      .run();
}

void trim_stream(Database& database, std::uint64_t items_max, std::uint64_t bytes_max) {
  // Both numbers grow from row to row, so only rows to be deleted are visited.
  Statement& first_kept = database.prepare(
      "SELECT sequence FROM stream WHERE sequence > (SELECT max(sequence) FROM stream) - ?1 AND (bytes_before >="
      " (SELECT bytes_before + bytes FROM stream ORDER BY sequence DESC LIMIT 1) - ?2"
      " OR sequence = (SELECT max(sequence) FROM stream)) ORDER BY sequence LIMIT 1");
  if (!first_kept.bind(items_max).bind(bytes_max).step()) return;
  const auto first = first_kept.integer();
  first_kept.reset();
  Statement& last_dropped = database.prepare("SELECT max(sequence) FROM stream WHERE sequence < ?");
  last_dropped.bind(first).step();
  const auto last = last_dropped.optional_integer();
  last_dropped.reset();
  if (!last) return;
  database.prepare("DELETE FROM stream WHERE sequence <= ?").bind(*last).run();
  database
      .prepare(
          "INSERT INTO facts (name, value) VALUES ('stream_trimmed', ?)"
          " ON CONFLICT DO UPDATE SET value = excluded.value")
      .bind(*last)
      .run();
}

bool trim_events(Database& database, std::uint64_t kept_max, std::uint32_t rows_max) {
  Statement& newest_dropped =
      database.prepare("SELECT id FROM events WHERE job IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?");
  newest_dropped.bind(kept_max);
  const auto last = newest_dropped.step() ? std::optional(newest_dropped.integer()) : std::nullopt;
  newest_dropped.reset();
  if (!last) return false;
  database
      .prepare(
          "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job IS NULL AND id <= ? ORDER BY id LIMIT ?)")
      .bind(*last)
      .bind(rows_max)
      .run();
  Statement& left = database.prepare("SELECT EXISTS (SELECT 1 FROM events WHERE job IS NULL AND id <= ?)");
  left.bind(*last).step();
  const bool more = left.integer() != 0;
  left.reset();
  return more;
}

}  // namespace weir::cluster
