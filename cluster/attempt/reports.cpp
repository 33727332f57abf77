#include "cluster/attempt/reports.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "cluster/traffic.hpp"
#include "protocol/traffic.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto publish_interval = 1s;  // progress of the job as a whole

}  // namespace

Reports::Reports(Services& services, JobRecord& job, std::uint64_t attempt, std::uint32_t world, Figures::Past past)
    : services_(services), job_(job), attempt_(attempt), figures_(world, std::move(past)), accepted_(world) {}

net::awaitable<Result<void>> Reports::add(protocol::Report report) {
  const auto world = static_cast<std::uint32_t>(accepted_.size());
  if (auto good = protocol::check(report.traffic, report.rank, world); !good) co_return good.error();
  std::uint64_t& accepted = accepted_[report.rank];
  std::vector<Change> changes;
  std::optional<PlanEvents> before;
  if (report.sequence > accepted) {  // else a repeat: the empty commit below waits for that of the first
    accepted = report.sequence;
    if (report.traffic && !report.traffic->plans.empty()) before = plan_events_;
    changes = changes_of(report);
  }
  auto committed = co_await services_.store->commit(std::move(changes));
  if (!committed && accepted == report.sequence) {  // so that it may be repeated
    accepted = report.sequence - 1;
    if (before) plan_events_ = std::move(*before);
  }
  co_return committed;
}

std::vector<Change> Reports::changes_of(protocol::Report& report) {
  std::vector<Change> changes;
  auto rows = figures_.add(report.rank, report.step, report.points);
  job_.step = figures_.step();
  summarize();
  if (!rows.empty()) {
    changes.push_back(metrics_item(job_, rows));
    changes.push_back(change::AddMetrics{job_.id, std::move(rows)});
  }
  if (auto& traffic = report.traffic) {
    for (auto& message : plan_events_.add(traffic->plans)) {
      changes.push_back(services_.event(job_.id, Severity::info, "exchange.planned", std::move(message)));
    }
    changes.push_back(change::PutTraffic{kept_of(job_.id, attempt_, report.rank, std::move(*traffic))});
  }
  changes.push_back(change::PutJob{job_});
  if (services_.clock.now() - published_ >= publish_interval) {
    note_published();
    changes.push_back(job_item(job_));
  }
  return changes;
}

/// Values that this attempt has not reported yet remain those of the attempt before.
void Reports::summarize() {
  job_.summary.update(figures_.summary());
  if (job_.step == 0 || job_.summary.contains("first_step_seconds")) return;
  job_.summary["first_step_seconds"] = std::chrono::duration<double>(services_.now() - job_.created_at).count();
}

}  // namespace weir::cluster
