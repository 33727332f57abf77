#include "cluster/traffic.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cluster/records.hpp"

namespace weir::cluster {
namespace {

using nlohmann::json;
using protocol::BucketSpan;
using protocol::ByteCounts;

json bytes_json(const ByteCounts& bytes) { return json::array({bytes.sent, bytes.received}); }
ByteCounts bytes_of(const json& pair) { return {pair.at(0).get<std::uint64_t>(), pair.at(1).get<std::uint64_t>()}; }

json named_json(const std::vector<protocol::NamedTraffic>& list) {
  json result = json::array();
  for (const auto& [name, bytes] : list) result.push_back({name, bytes.sent, bytes.received});
  return result;
}

std::vector<protocol::NamedTraffic> named_of(const json& list) {
  std::vector<protocol::NamedTraffic> result;
  for (const auto& one : list) {
    result.push_back({one.at(0).get<std::string>(), {one.at(1).get<std::uint64_t>(), one.at(2).get<std::uint64_t>()}});
  }
  return result;
}

std::int64_t microseconds(double seconds) { return std::llround(seconds * 1e6); }

}  // namespace

std::string to_text(const protocol::TrafficTotals& totals) {
  json links = json::array();
  for (const auto& [rank, bytes] : totals.links) links.push_back({rank, bytes.sent, bytes.received});
  return to_text(json{{"step", totals.step},
                      {"links", std::move(links)},
                      {"phases", named_json(totals.phases)},
                      {"tensors", named_json(totals.tensors)},
                      {"rest", bytes_json(totals.rest)}});
}

std::string to_text(const protocol::StepTimeline& timeline) {
  json spans = json::array();
  for (const auto& span : timeline.spans) {
    spans.push_back({span.bucket, static_cast<int>(span.activity), span.part, span.lane,
                     microseconds(span.begin_seconds), microseconds(span.seconds), span.bytes.sent,
                     span.bytes.received});
  }
  return to_text(json{{"step", timeline.step},
                      {"microseconds", microseconds(timeline.seconds)},
                      {"dropped", timeline.dropped},
                      {"spans", std::move(spans)}});
}

protocol::TrafficTotals totals_of(const std::string& text) {
  const auto row = json::parse(text);
  protocol::TrafficTotals totals;
  totals.step = row.at("step").get<std::uint64_t>();
  for (const auto& link : row.at("links")) {
    totals.links.push_back(
        {link.at(0).get<std::uint32_t>(), {link.at(1).get<std::uint64_t>(), link.at(2).get<std::uint64_t>()}});
  }
  totals.phases = named_of(row.at("phases"));
  totals.tensors = named_of(row.at("tensors"));
  totals.rest = bytes_of(row.at("rest"));
  return totals;
}

protocol::StepTimeline timeline_of(const std::string& text) {
  const auto row = json::parse(text);
  protocol::StepTimeline timeline;
  timeline.step = row.at("step").get<std::uint64_t>();
  timeline.seconds = row.at("microseconds").get<double>() / 1e6;
  timeline.dropped = row.at("dropped").get<std::uint32_t>();
  for (const auto& one : row.at("spans")) {
    BucketSpan span;
    span.bucket = one.at(0).get<std::uint32_t>();
    span.activity = static_cast<protocol::Activity>(one.at(1).get<int>());
    span.part = one.at(2).get<std::uint32_t>();
    span.lane = one.at(3).get<std::uint32_t>();
    span.begin_seconds = one.at(4).get<double>() / 1e6;
    span.seconds = one.at(5).get<double>() / 1e6;
    span.bytes = {one.at(6).get<std::uint64_t>(), one.at(7).get<std::uint64_t>()};
    timeline.spans.push_back(span);
  }
  return timeline;
}

}  // namespace weir::cluster
