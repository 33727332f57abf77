#include "actors/traffic_log.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace weir::actors {
namespace {

/// More steps than this in a second are sampled as if they were fewer.
constexpr double rate_max = 1e9;

std::optional<protocol::StepTimeline> timeline_of(const training::TrafficAccount* account, std::uint64_t step,
                                                  double seconds) {
  auto timeline = account != nullptr ? account->last_step() : std::nullopt;
  if (!timeline) return std::nullopt;
  timeline->step = step;
  timeline->seconds = seconds;
  return timeline;
}

}  // namespace

void TrafficLog::add(std::uint64_t step, double seconds, const collectives::Fabric& group,
                     const training::TrafficAccount* account, Time now) {
  if (!begin_) begin_ = now - std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  ++steps_;
  step_ = step;
  seconds_ = seconds;
  if (steps_ > 1 && seconds > slowest_seconds_) {  // the first step also makes buffers and connections
    slowest_seconds_ = seconds;
    auto timeline = timeline_of(account, step, seconds);
    const std::lock_guard lock(mutex_);
    slowest_ = std::move(timeline);
  }
  const double elapsed = std::chrono::duration<double>(now - *begin_).count();
  const double rate = elapsed > 0 ? std::min(rate_max, static_cast<double>(steps_) / elapsed) : rate_max;
  const auto stride = std::bit_ceil(static_cast<std::uint64_t>(std::ceil(rate)));
  if (steps_ % stride == 0) sample(group, account);
}

void TrafficLog::planned(protocol::ExchangePlan plan) {
  const std::lock_guard lock(mutex_);
  if (plans_.size() == protocol::TrafficReport::plans_max) plans_.erase(plans_.begin());
  plans_.push_back(std::move(plan));
}

void TrafficLog::finish(const collectives::Fabric& group, const training::TrafficAccount* account) {
  if (steps_ > 0) sample(group, account);
}

void TrafficLog::sample(const collectives::Fabric& group, const training::TrafficAccount* account) {
  protocol::TrafficReport report{.totals = training::totals_of(group, account),
                                 .sampled = timeline_of(account, step_, seconds_),
                                 .slowest = {},
                                 .plans = {}};
  report.totals.step = step_;
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

std::optional<protocol::TrafficReport> TrafficLog::take() {
  const std::lock_guard lock(mutex_);
  auto report = std::exchange(report_, std::nullopt);
  if (report) {
    report->slowest = std::exchange(slowest_, std::nullopt);
    report->plans = std::exchange(plans_, {});
  }
  return report;
}

}  // namespace weir::actors
