#include "api/traffic_json.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace weir::api {
namespace {

using cluster::WorkerTraffic;
using nlohmann::json;
using protocol::ByteCounts;
using protocol::NamedTraffic;

json with_bytes(json object, const ByteCounts& bytes) {
  object["bytes_sent"] = bytes.sent;
  object["bytes_received"] = bytes.received;
  return object;
}

json named_json(const std::vector<NamedTraffic>& list) {
  json result = json::array();
  for (const auto& [name, bytes] : list) result.push_back(with_bytes({{"name", name}}, bytes));
  return result;
}

/// The sum over workers of lists with names, in the order in which the names appear first.
class Sum {
 public:
  void add(const std::vector<NamedTraffic>& list) {
    for (const auto& [name, bytes] : list) {
      const auto [place, is_new] = places_.try_emplace(name, list_.size());
      if (is_new) list_.push_back({name, {}});
      list_[place->second].bytes += bytes;
    }
  }
  const std::vector<NamedTraffic>& list() const { return list_; }

  /// Keeps those with most bytes, most first, and returns what the others have.
  ByteCounts keep(std::size_t most) {
    const auto all = [](const NamedTraffic& one) { return one.bytes.sent + one.bytes.received; };
    std::ranges::stable_sort(list_, [&](const auto& a, const auto& b) { return all(a) > all(b); });
    ByteCounts rest;
    for (; list_.size() > most; list_.pop_back()) rest += list_.back().bytes;
    return rest;
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<NamedTraffic> list_;
};

ByteCounts sum_of(const std::vector<protocol::LinkTraffic>& links) {
  ByteCounts all;
  for (const auto& link : links) all += link.bytes;
  return all;
}

json worker_json(const WorkerTraffic& worker) {
  json links = json::array();
  for (const auto& [rank, bytes] : worker.totals.links) links.push_back(with_bytes({{"worker", rank}}, bytes));
  return with_bytes({{"worker", worker.worker},
                     {"step", worker.totals.step},
                     {"links", std::move(links)},
                     {"phases", named_json(worker.totals.phases)},
                     {"tensors", named_json(worker.totals.tensors)},
                     {"rest", with_bytes(json::object(), worker.totals.rest)}},
                    sum_of(worker.totals.links));
}

/// Each pair of workers in each direction. Both ends count: the bytes sent are the sender's, those received the
/// receiver's, and null if that end has not reported.
json links_json(std::span<const WorkerTraffic> workers) {
  using Direction = std::pair<std::uint32_t, std::uint32_t>;
  std::map<Direction, std::pair<json, json>> directions;
  for (const auto& worker : workers) {
    for (const auto& [rank, bytes] : worker.totals.links) {
      directions[{worker.worker, rank}].first = bytes.sent;
      directions[{rank, worker.worker}].second = bytes.received;
    }
  }
  json links = json::array();
  for (auto& [direction, bytes] : directions) {
    links.push_back({{"from", direction.first},
                     {"to", direction.second},
                     {"bytes_sent", std::move(bytes.first)},
                     {"bytes_received", std::move(bytes.second)}});
  }
  return links;
}

// --- the trace ---

constexpr int codec_thread = 0;

int thread_of(const protocol::BucketSpan& span) {
  const bool computes = span.activity == protocol::Activity::encode || span.activity == protocol::Activity::decode;
  return computes ? codec_thread : static_cast<int>(span.lane) + 1;
}

std::string_view name_of(protocol::Activity activity) {
  switch (activity) {
    case protocol::Activity::encode: return "encode";
    case protocol::Activity::wait: return "wait";
    case protocol::Activity::wire: return "wire";
    default: return "decode";
  }
}

std::string part_name(std::uint32_t part) { return part == 0 ? "dense" : "pass " + std::to_string(part); }

json metadata(std::uint32_t process, std::optional<int> thread, std::string name) {
  json event = {{"ph", "M"},
                {"name", thread ? "thread_name" : "process_name"},
                {"pid", process},
                {"tid", thread.value_or(codec_thread)},
                {"args", {{"name", std::move(name)}}}};
  return event;
}

void add_span(json& events, std::uint32_t process, std::uint64_t step, const protocol::BucketSpan& span) {
  const auto activity = name_of(span.activity);
  json args = {{"bucket", span.bucket}, {"step", step}};
  json event = {{"cat", activity}, {"pid", process}, {"tid", thread_of(span)}, {"ts", span.begin_seconds * 1e6}};
  if (span.activity == protocol::Activity::wait) {
    event["name"] = "bucket " + std::to_string(span.bucket) + " waits";
    event["id"] = std::to_string(process) + "." + std::to_string(span.bucket);
    event["ph"] = "b";
    event["args"] = std::move(args);
    events.push_back(event);
    event.erase("args");
    event["ph"] = "e";
    event["ts"] = (span.begin_seconds + span.seconds) * 1e6;
    events.push_back(std::move(event));
    return;
  }
  args["part"] = part_name(span.part);
  if (span.activity == protocol::Activity::wire) args = with_bytes(std::move(args), span.bytes);
  event["name"] = std::string(activity) + " bucket " + std::to_string(span.bucket) + ", " + part_name(span.part);
  event["ph"] = "X";
  event["dur"] = span.seconds * 1e6;
  event["args"] = std::move(args);
  events.push_back(std::move(event));
}

}  // namespace

json traffic_json(const std::string& job_id, std::span<const WorkerTraffic> workers) {
  Sum phases;
  Sum tensors;
  ByteCounts all;
  ByteCounts rest;
  json each = json::array();
  for (const auto& worker : workers) {
    all += sum_of(worker.totals.links);
    phases.add(worker.totals.phases);
    tensors.add(worker.totals.tensors);
    rest += worker.totals.rest;
    each.push_back(worker_json(worker));
  }
  rest += tensors.keep(protocol::TrafficTotals::tensors_max);
  return with_bytes({{"job", job_id},
                     {"links", links_json(workers)},
                     {"phases", named_json(phases.list())},
                     {"tensors", named_json(tensors.list())},
                     {"rest", with_bytes(json::object(), rest)},
                     {"workers", std::move(each)}},
                    all);
}

json chrome_trace(const std::string& job_id, std::span<const WorkerTraffic> workers, TraceStep step) {
  json events = json::array();
  json steps = json::array();
  for (const auto& worker : workers) {
    const auto& timeline = step == TraceStep::slowest ? worker.slowest : worker.sampled;
    if (!timeline) continue;
    steps.push_back({{"worker", worker.worker},
                     {"step", timeline->step},
                     {"seconds", timeline->seconds},
                     {"dropped", timeline->dropped}});
    events.push_back(metadata(worker.worker, std::nullopt, "worker " + std::to_string(worker.worker)));
    events.push_back(metadata(worker.worker, codec_thread, "codec"));
    std::uint32_t lanes = 0;
    for (const auto& span : timeline->spans) lanes = std::max(lanes, span.lane + 1);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      events.push_back(metadata(worker.worker, static_cast<int>(lane) + 1, "lane " + std::to_string(lane)));
    }
    for (const auto& span : timeline->spans) add_span(events, worker.worker, timeline->step, span);
  }
  return {{"displayTimeUnit", "ms"},
          {"otherData", {{"job", job_id}, {"steps", std::move(steps)}}},
          {"traceEvents", std::move(events)}};
}

}  // namespace weir::api
