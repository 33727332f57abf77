#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "protocol/traffic.hpp"

/// What workers have exchanged, as the store keeps it.
namespace weir::cluster {

/// The traffic of one worker in one attempt of its job, as the worker has reported it last.
struct WorkerTraffic {
  std::string job_id;
  std::uint64_t attempt = 0;
  std::uint32_t worker = 0;  ///< its rank
  protocol::TrafficTotals totals;
  std::optional<protocol::StepTimeline> sampled;
  std::optional<protocol::StepTimeline> slowest;
  std::optional<protocol::ExchangePlan> plan;  ///< the latest; worker 0 only
};

/// What is asked for of the traffic of a job's newest attempt.
struct TrafficQuery {
  std::string job_id;
  std::optional<std::uint32_t> worker = std::nullopt;  ///< a rank, or all
  bool totals = true;                                  ///< and the plan
  bool sampled = true;
  bool slowest = true;
};

/// What is kept of a report.
WorkerTraffic kept_of(const std::string& job_id, std::uint64_t attempt, std::uint32_t worker,
                      protocol::TrafficReport report);

/// The text of a row's columns. Times of a timeline are kept to the microsecond.
std::string to_text(const protocol::TrafficTotals& totals);
std::string to_text(const protocol::StepTimeline& timeline);
std::string to_text(const protocol::ExchangePlan& plan);

/// The reverse. They throw nlohmann::json::exception for anything that to_text did not write.
protocol::TrafficTotals totals_of(const std::string& text);
protocol::StepTimeline timeline_of(const std::string& text);
protocol::ExchangePlan plan_of(const std::string& text);

}  // namespace weir::cluster
