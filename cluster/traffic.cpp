#include "cluster/traffic.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

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

WorkerTraffic kept_of(const std::string& job_id, std::uint64_t attempt, std::uint32_t worker,
                      protocol::TrafficReport report) {
  WorkerTraffic kept;
  kept.job_id = job_id;
  kept.attempt = attempt;
  kept.worker = worker;
  kept.totals = std::move(report.totals);
  kept.sampled = std::move(report.sampled);
  kept.slowest = std::move(report.slowest);
  if (!report.plans.empty()) kept.plan = std::move(report.plans.back());
  return kept;
}

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
  for (const auto& span : timeline.spans) {  // ends are rounded like begins: neighbours do not overlap then either
    const auto begin = microseconds(span.begin_seconds);
    spans.push_back({span.bucket, static_cast<int>(span.activity), span.part, span.lane, begin,
                     microseconds(span.begin_seconds + span.seconds) - begin, span.bytes.sent, span.bytes.received});
  }
  return to_text(json{{"step", timeline.step},
                      {"microseconds", microseconds(timeline.seconds)},
                      {"dropped", timeline.dropped},
                      {"spans", std::move(spans)}});
}

std::string to_text(const protocol::ExchangePlan& plan) {
  json buckets = json::array();
  for (const auto& [form, topology, bytes] : plan.buckets) buckets.push_back({form, topology, bytes});
  json candidates = json::array();
  for (const auto& [routes, predicted, measured, followed] : plan.candidates) {
    candidates.push_back({routes, predicted, measured ? json(*measured) : json(nullptr), followed});
  }
  return to_text(json{{"step", plan.step},
                      {"reason", plan.reason},
                      {"buckets", std::move(buckets)},
                      {"latency_seconds", plan.latency_seconds},
                      {"bytes_per_second", plan.bytes_per_second},
                      {"candidates", std::move(candidates)}});
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

protocol::ExchangePlan plan_of(const std::string& text) {
  const auto row = json::parse(text);
  protocol::ExchangePlan plan;
  plan.step = row.at("step").get<std::uint64_t>();
  plan.reason = row.at("reason").get<std::string>();
  for (const auto& one : row.at("buckets")) {
    plan.buckets.push_back(
        {one.at(0).get<std::string>(), one.at(1).get<std::string>(), one.at(2).get<std::uint64_t>()});
  }
  plan.latency_seconds = row.at("latency_seconds").get<double>();
  plan.bytes_per_second = row.at("bytes_per_second").get<double>();
  for (const auto& one : row.at("candidates")) {
    protocol::ExchangePlan::Candidate candidate;
    candidate.routes = one.at(0).get<std::string>();
    candidate.predicted_seconds = one.at(1).get<double>();
    if (const auto& measured = one.at(2); !measured.is_null()) candidate.measured_seconds = measured.get<double>();
    candidate.followed = one.at(3).get<bool>();
    plan.candidates.push_back(std::move(candidate));
  }
  return plan;
}

}  // namespace weir::cluster
