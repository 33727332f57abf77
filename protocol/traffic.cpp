#include "protocol/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/errc.hpp"

namespace weir::protocol {
namespace {

/// Exact as a number in JSON, and far from an overflow in any sum.
constexpr std::uint64_t count_max = std::uint64_t{1} << 53;
constexpr double seconds_max = 1e9;
constexpr std::uint32_t bucket_max = 1 << 20;
constexpr std::uint32_t lane_max = 63;

Error refused(const std::string& why) { return {Errc::invalid_argument, "traffic report: " + why}; }

bool good(const ByteCounts& bytes) { return bytes.sent <= count_max && bytes.received <= count_max; }
bool good(double seconds) { return std::isfinite(seconds) && seconds >= 0 && seconds <= seconds_max; }

Result<void> check_named(const std::vector<NamedTraffic>& list, std::size_t most, const std::string& what) {
  if (list.size() > most) return refused(std::to_string(list.size()) + " " + what);
  for (const auto& [name, bytes] : list) {
    if (name.empty() || name.size() > TrafficTotals::name_bytes_max) {
      return refused("a name of " + what + " is empty or too long");
    }
    if (!good(bytes)) return refused("a byte count of " + what + " is out of range");
  }
  return {};
}

Result<void> check_totals(const TrafficTotals& totals, std::uint32_t rank, std::uint32_t world) {
  if (totals.step > count_max) return refused("the step is out of range");
  if (totals.links.size() >= world) return refused("more links than other workers");
  std::set<std::uint32_t> ranks{rank};
  for (const auto& link : totals.links) {
    if (link.rank >= world) return refused("a link to rank " + std::to_string(link.rank) + ", which the job lacks");
    if (!ranks.insert(link.rank).second) return refused("a link to itself, or two to the same rank");
    if (!good(link.bytes)) return refused("a byte count of a link is out of range");
  }
  if (auto phases = check_named(totals.phases, TrafficTotals::phases_max, "phases"); !phases) return phases;
  if (auto tensors = check_named(totals.tensors, TrafficTotals::tensors_max, "tensors"); !tensors) return tensors;
  if (!good(totals.rest)) return refused("a byte count is out of range");
  return {};
}

Result<void> check_timeline(const std::optional<StepTimeline>& timeline) {
  if (!timeline) return {};
  if (timeline->spans.size() > StepTimeline::spans_max) return refused("too many spans of a step");
  if (timeline->step > count_max || !good(timeline->seconds)) return refused("a step's number or time is out of range");
  const bool all = std::ranges::all_of(timeline->spans, [](const BucketSpan& span) {
    return span.bucket <= bucket_max && span.lane <= lane_max && span.part < TrafficTotals::phases_max &&
           good(span.begin_seconds) && good(span.seconds) && good(span.bytes);
  });
  if (!all) return refused("a span of a step is out of range");
  return {};
}

Result<void> check_plan(const ExchangePlan& plan) {
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.size() <= ExchangePlan::name_bytes_max;
  };
  const auto is_text = [](const std::string& text) {
    return !text.empty() && text.size() <= ExchangePlan::text_bytes_max;
  };
  if (plan.buckets.empty() || plan.buckets.size() > ExchangePlan::buckets_max) {
    return refused("a plan for " + std::to_string(plan.buckets.size()) + " buckets");
  }
  for (const auto& [form, topology, bytes] : plan.buckets) {
    if (!is_name(form) || !is_name(topology))
      return refused("a name of a plan's form or topology is empty or too long");
    if (bytes > count_max) return refused("the bytes of a plan's bucket are out of range");
  }
  if (plan.candidates.size() > ExchangePlan::candidates_max) return refused("too many candidates of a plan");
  for (const auto& [routes, predicted, measured, followed] : plan.candidates) {
    if (!is_text(routes)) return refused("the text of a plan's candidate is empty or too long");
    if (!good(predicted) || !good(measured.value_or(0))) return refused("a time of a plan's candidate is out of range");
  }
  if (!is_text(plan.reason)) return refused("the reason of a plan is empty or too long");
  if (plan.step > count_max) return refused("the step of a plan is out of range");
  const bool rate = std::isfinite(plan.bytes_per_second) && plan.bytes_per_second >= 0;
  if (!good(plan.latency_seconds) || !rate) return refused("a plan's latency or rate is out of range");
  return {};
}

}  // namespace

std::string part_name(std::uint32_t part) {
  if (part == BucketSpan::part_within_hosts) return "within hosts";
  return part == 0 ? "dense" : "pass " + std::to_string(part);
}

Result<void> check(const std::optional<TrafficReport>& report, std::uint32_t rank, std::uint32_t world) {
  if (!report) return {};
  if (auto totals = check_totals(report->totals, rank, world); !totals) return totals;
  if (auto sampled = check_timeline(report->sampled); !sampled) return sampled;
  if (auto slowest = check_timeline(report->slowest); !slowest) return slowest;
  if (report->plans.size() > TrafficReport::plans_max) return refused("too many plans of the exchange");
  if (!report->plans.empty() && rank != 0) return refused("a plan of the exchange from another rank than 0");
  for (const auto& plan : report->plans) {
    if (auto checked = check_plan(plan); !checked) return checked;
  }
  return {};
}

}  // namespace weir::protocol
