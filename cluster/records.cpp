#include "cluster/records.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace weir::cluster {
namespace {

using nlohmann::json;

/// Finds a value of an enum by its name. `names` has the names of all values, in order.
template <class Enum, std::size_t N>
std::optional<Enum> parse(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

constexpr std::array<std::string_view, 5> job_states = {"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"};
constexpr std::array<std::string_view, 8> job_phases = {"",         "queued",     "placing", "spawning", "initialising",
                                                        "training", "recovering", "stopping"};
constexpr std::array<std::string_view, 3> worker_states = {"starting", "running", "exited"};
constexpr std::array<std::string_view, 3> node_states = {"alive", "draining", "lost"};
constexpr std::array<std::string_view, 3> severities = {"info", "warning", "error"};
constexpr std::array<std::string_view, 3> axes = {"step", "wall", "bytes"};
constexpr std::array<std::string_view, 9> stream_kinds = {
    "node", "event", "job", "job_end", "metrics", "checkpoint", "log", "job_removed", "node_removed"};

template <class Names, class Enum>
std::string_view name_of(const Names& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json time_or_null(const std::optional<Time>& time) { return time ? json(to_iso8601(*time)) : json(nullptr); }
json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

/// A GPU of a node, with who has booked what of it.
json gpu_json(const NodeRecord& node, const GpuRecord& gpu) {
  json workers = json::array();
  for (const auto& worker : node.workers) {
    for (const auto& [uuid, share] : worker.gpus) {
      if (uuid != gpu.gpu.uuid) continue;
      workers.push_back({{"worker_id", worker.id},
                         {"job", worker.job_id},
                         {"rank", worker.rank},
                         {"role", to_string(worker.role)},
                         {"share", share}});
    }
  }
  const auto& sample = gpu.sample;
  return {{"index", gpu.gpu.index},
          {"uuid", gpu.gpu.uuid},
          {"name", gpu.gpu.name},
          {"state", gpu.lost ? "lost" : "present"},
          {"booked", booked_of(node, gpu)},
          {"workers", std::move(workers)},
          {"memory_total_bytes", gpu.gpu.memory_total_bytes == 0 ? json(nullptr) : json(gpu.gpu.memory_total_bytes)},
          {"memory_used_bytes", or_null(sample.memory_used_bytes)},
          {"utilization", or_null(sample.utilization)},
          {"power_watts", or_null(sample.power_watts)},
          {"temperature_celsius", or_null(sample.temperature_celsius)},
          {"ecc_errors", or_null(sample.ecc_errors)},
          {"xid", or_null(sample.xid)}};
}

}  // namespace

std::string to_iso8601(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text.data();
}

std::string_view to_string(JobState state) { return name_of(job_states, state); }
std::optional<JobState> job_state(std::string_view name) { return parse<JobState>(job_states, name); }
std::string_view to_string(JobPhase phase) { return name_of(job_phases, phase); }
std::string_view to_string(WorkerState state) { return name_of(worker_states, state); }
std::string_view to_string(NodeState state) { return name_of(node_states, state); }
std::string_view to_string(Severity severity) { return name_of(severities, severity); }
std::string_view to_string(MetricAxis axis) { return name_of(axes, axis); }
std::optional<MetricAxis> metric_axis(std::string_view name) { return parse<MetricAxis>(axes, name); }
std::string_view to_string(StreamKind kind) { return name_of(stream_kinds, kind); }

double booked_of(const NodeRecord& node, const GpuRecord& gpu) {
  double booked = 0;
  for (const auto& worker : node.workers) {
    for (const auto& [uuid, share] : worker.gpus) booked += uuid == gpu.gpu.uuid ? share : 0;
  }
  return booked;
}

std::string to_text(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json to_json(const JobRecord& job) {
  return {{"id", job.id},
          {"name", job.name},
          {"state", to_string(job.state)},
          {"phase", to_string(job.phase)},
          {"reason", text_or_null(job.reason)},
          {"spec", job.spec},
          {"restarts", job.restarts},
          {"created_at", to_iso8601(job.created_at)},
          {"started_at", time_or_null(job.started_at)},
          {"ended_at", time_or_null(job.ended_at)},
          {"step", job.step},
          {"steps_total", job.steps_total == 0 ? json(nullptr) : json(job.steps_total)},
          {"summary", job.summary}};
}

json to_json(const std::vector<protocol::GpuShare>& gpus) {
  json result = json::array();
  for (const auto& [uuid, share] : gpus) result.push_back({{"uuid", uuid}, {"share", share}});
  return result;
}

json to_json(const WorkerRecord& worker) {
  json result = worker.figures.is_object() ? worker.figures : json::object();
  result.update({{"rank", worker.rank},
                 {"role", to_string(worker.role)},
                 {"worker_id", worker.id},
                 {"job", worker.job_id},
                 {"node", text_or_null(worker.node)},
                 {"gpus", to_json(worker.gpus)},
                 {"pid", worker.pid == 0 ? json(nullptr) : json(worker.pid)},
                 {"state", to_string(worker.state)},
                 {"step", worker.step},
                 {"exit_code", or_null(worker.exit_code)},
                 {"signal", or_null(worker.signal)},
                 {"started_at", time_or_null(worker.started_at)},
                 {"ended_at", time_or_null(worker.ended_at)}});
  return result;
}

json to_json(const NodeRecord& node) {
  json workers = json::array();
  for (const auto& worker : node.workers) {
    workers.push_back({{"worker_id", worker.id},
                       {"job", worker.job_id},
                       {"rank", worker.rank},
                       {"role", to_string(worker.role)},
                       {"pid", worker.pid == 0 ? json(nullptr) : json(worker.pid)}});
  }
  json gpus = json::array();
  for (const auto& gpu : node.gpus) gpus.push_back(gpu_json(node, gpu));
  return {{"id", node.id},
          {"name", node.name},
          {"host", node.host},
          {"state", to_string(node.state)},
          {"lease_id", node.lease_id},
          {"resources", node.resources},
          {"used", node.used},
          {"labels", node.labels},
          {"version", node.version},
          {"pid", node.pid},
          {"joined_at", to_iso8601(node.joined_at)},
          {"lost_at", time_or_null(node.lost_at)},
          {"reason", text_or_null(node.reason)},
          {"last_heartbeat_at", node.heartbeat_at == Time{} ? json(nullptr) : json(to_iso8601(node.heartbeat_at))},
          {"cpu_load", node.cpu_load},
          {"memory_used_bytes", node.memory_used_bytes},
          {"memory_total_bytes", node.memory_total_bytes},
          {"network_sent_bytes", node.network_sent_bytes},
          {"network_received_bytes", node.network_received_bytes},
          {"gpus", std::move(gpus)},
          {"workers", workers}};
}

json to_json(const EventRecord& event) {
  return {{"id", event.sequence},
          {"at", to_iso8601(event.time)},
          {"severity", to_string(event.severity)},
          {"kind", event.kind},
          {"message", event.message},
          {"job", text_or_null(event.job_id)},
          {"node", text_or_null(event.node)},
          {"worker", or_null(event.worker)}};
}

json to_json(const CheckpointRecord& checkpoint) {
  return {{"step", checkpoint.step}, {"bytes", checkpoint.bytes}, {"created_at", to_iso8601(checkpoint.created_at)}};
}

json to_json(const ActorRecord& actor) {
  return {{"name", actor.name},
          {"type", actor.type},
          {"state", actor.state},
          {"node", text_or_null(actor.node)},
          {"job", text_or_null(actor.job_id)},
          {"process", actor.name.substr(0, actor.name.find('/'))},
          {"mailbox_depth", or_null(actor.mailbox_depth)},
          {"messages_handled", or_null(actor.messages_handled)}};
}

}  // namespace weir::cluster
