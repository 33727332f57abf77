#include "api/chrome_trace.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::api {
namespace {

using nlohmann::json;
using protocol::Activity;
using protocol::BucketSpan;

/// As the trace counts time. Begins and ends are rounded, and not lengths: what does not overlap does not then either.
std::int64_t microseconds(double seconds) { return std::llround(seconds * 1e6); }
std::int64_t begin_of(const BucketSpan& span) { return microseconds(span.begin_seconds); }
std::int64_t end_of(const BucketSpan& span) { return microseconds(span.begin_seconds + span.seconds); }

std::string_view name_of(Activity activity) {
  switch (activity) {
    case Activity::encode: return "encode";
    case Activity::wait: return "wait";
    case Activity::wire: return "wire";
    default: return "decode";
  }
}

std::uint32_t process_of(const cluster::WorkerTraffic& worker) { return worker.worker + 1; }

/// The threads of a worker's process.
class Threads {
 public:
  explicit Threads(std::span<const BucketSpan> spans) {
    names_[encoder] = "encoder";
    names_[decoder] = "decoder";
    std::uint32_t lanes = 0;
    for (const auto& span : spans) lanes = std::max(lanes, span.lane + 1);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) names_[first_lane + lane] = "lane " + std::to_string(lane);
  }

  static std::uint32_t of_lane(const BucketSpan& span) { return first_lane + span.lane; }

  /// The thread of a span that takes its thread for itself. To be called in the order in which spans begin.
  std::uint32_t occupy(const BucketSpan& span) {
    const std::uint32_t usual = usual_thread(span);
    std::uint32_t thread = usual;
    for (std::uint32_t place = 2; busy_until_[thread] > begin_of(span); ++place) {
      thread += apart;
      names_.try_emplace(thread, names_.at(usual) + " (" + std::to_string(place) + ")");
    }
    busy_until_[thread] = end_of(span);
    return thread;
  }

  const std::map<std::uint32_t, std::string>& names() const { return names_; }

 private:
  static std::uint32_t usual_thread(const BucketSpan& span) {
    if (span.activity == Activity::encode) return encoder;
    return span.activity == Activity::decode ? decoder : of_lane(span);
  }

  static constexpr std::uint32_t encoder = 1;
  static constexpr std::uint32_t decoder = 2;
  static constexpr std::uint32_t first_lane = 3;
  static constexpr std::uint32_t apart = 100;  ///< more than there are lanes

  std::map<std::uint32_t, std::string> names_;
  std::map<std::uint32_t, std::int64_t> busy_until_;
};

json metadata(std::string_view what, std::uint32_t process, std::uint32_t thread, std::string name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", std::move(name)}}}};
}

void add_span(std::vector<json>& events, std::uint32_t process, std::uint64_t step, Threads& threads,
              const BucketSpan& span) {
  const auto activity = name_of(span.activity);
  const std::string bucket = std::to_string(span.bucket);
  json args = {{"bucket", span.bucket}, {"step", step}};
  json event = {{"cat", activity}, {"pid", process}, {"ts", begin_of(span)}};
  if (span.activity == Activity::wait) {
    event["name"] = "bucket " + bucket + " waits";
    event["id"] = std::to_string(process) + "." + bucket;
    event["tid"] = Threads::of_lane(span);
    event["ph"] = "b";
    event["args"] = std::move(args);
    events.push_back(event);
    event.erase("args");
    event["ph"] = "e";
    event["ts"] = end_of(span);
    events.push_back(std::move(event));
    return;
  }
  args["part"] = protocol::part_name(span.part);
  if (span.activity == Activity::wire) {
    args["bytes_sent"] = span.bytes.sent;
    args["bytes_received"] = span.bytes.received;
  }
  event["name"] = std::string(activity) + " bucket " + bucket + ", " + protocol::part_name(span.part);
  event["ph"] = "X";
  event["tid"] = threads.occupy(span);
  event["dur"] = end_of(span) - begin_of(span);
  event["args"] = std::move(args);
  events.push_back(std::move(event));
}

}  // namespace

json chrome_trace(const std::string& job_id, std::span<const cluster::WorkerTraffic> workers, TraceStep step) {
  json names = json::array();
  std::vector<json> events;
  json steps = json::array();
  for (const auto& worker : workers) {
    const auto& timeline = step == TraceStep::slowest ? worker.slowest : worker.sampled;
    if (!timeline) continue;
    steps.push_back({{"worker", worker.worker},
                     {"step", timeline->step},
                     {"seconds", timeline->seconds},
                     {"dropped", timeline->dropped}});
    auto spans = timeline->spans;
    std::ranges::stable_sort(spans, {}, begin_of);
    Threads threads(spans);
    for (const auto& span : spans) add_span(events, process_of(worker), timeline->step, threads, span);
    names.push_back(metadata("process_name", process_of(worker), 1, "worker " + std::to_string(worker.worker)));
    for (const auto& [thread, name] : threads.names()) {
      names.push_back(metadata("thread_name", process_of(worker), thread, name));
    }
  }
  std::ranges::stable_sort(events, {}, [](const json& event) { return event.at("ts").get<std::int64_t>(); });
  for (auto& event : events) names.push_back(std::move(event));
  return {{"displayTimeUnit", "ms"},
          {"otherData", {{"job", job_id}, {"steps", std::move(steps)}}},
          {"traceEvents", std::move(names)}};
}

}  // namespace weir::api
