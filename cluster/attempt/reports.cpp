#include "cluster/attempt/reports.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/errc.hpp"
#include "cluster/traffic.hpp"
#include "protocol/traffic.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto publish_interval = 1s;  // progress of the job as a whole

}  // namespace

Reports::Reports(Services& services, JobRecord& job, std::uint64_t attempt, Figures figures)
    : services_(services), job_(job), attempt_(attempt), figures_(std::move(figures)), ranks_(figures_.members()) {}

net::awaitable<Result<void>> Reports::add(protocol::Report report) {
  const auto members = static_cast<std::uint32_t>(ranks_.size());
  if (auto good = protocol::check(report.traffic, report.rank, members); !good) co_return good.error();
  Rank& rank = ranks_[report.rank];
  if (rank.under_way) {  // a repeat, whose first answer was lost with a link
    const runtime::Event ended = *rank.under_way;
    const bool waited = co_await ended.wait();
    if (!waited) co_return Error{Errc::cancelled, "waiting for an earlier try of the report"};
    if (report.sequence <= rank.committed) co_return Result<void>();
    // Whoever waited does not commit: the attempt may be over by now.
    co_return Error{Errc::exhausted, "an earlier try of the report could not be committed"};
  }
  if (report.sequence <= rank.committed) co_return Result<void>();
  if (report.sequence > rank.counted) {
    rank.counted = report.sequence;
    rank.changes = changes_of(report);
  }
  std::vector<Change> changes = rank.changes;
  append_job(changes);
  rank.under_way.emplace();
  auto committed = co_await services_.store->commit(std::move(changes));
  if (committed) {
    rank.committed = rank.counted;
    rank.changes.clear();
    store_fails_ = false;
  }
  std::exchange(rank.under_way, std::nullopt)->set();
  if (!committed) co_return to_repeat(committed.error());
  co_return committed;
}

/// A worker ends when its report is refused for good. It is not to blame for a store that cannot write, be it only for
/// a moment, so it is told to send the report again.
Error Reports::to_repeat(const Error& failure) {
  if (failure.code == Errc::conflict || failure.code == Errc::cancelled) return failure;
  if (!std::exchange(store_fails_, true)) {
    spdlog::error("job {}: reports of its workers wait for the store: {}", job_.id, failure.message());
  }
  return {Errc::exhausted, failure.message()};
}

void Reports::training_begins() {
  for (Rank& rank : ranks_) rank.step_begun = services_.clock.now();
}

/// The rank has come further.
void Reports::note_step(Rank& rank) {
  const auto now = services_.clock.now();
  if (rank.step_begun) longest_step_ = std::max(longest_step_, now - *rank.step_begun);
  rank.step_begun = now;
}

/// Counts the report and returns what it changes, apart from the record of the job.
std::vector<Change> Reports::changes_of(protocol::Report& report) {
  std::vector<Change> changes;
  if (!report.points.empty() && !std::exchange(has_begun_, true)) continue_time(report.points.back().wall_seconds);
  if (report.step > figures_.step_of(report.rank)) note_step(ranks_[report.rank]);
  auto rows = figures_.add(report.rank, report.step, report.points);
  // Before all workers of an attempt have reported, the job is where the attempt before has left it.
  if (const auto step = figures_.step(); step > 0) job_.step = step;
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
  return changes;
}

/// The time of the job's series passes between two attempts, too. `worker_seconds`: since this attempt's first step.
void Reports::continue_time(double worker_seconds) {
  const auto first = job_.summary.find("first_step_seconds");
  if (job_.restarts == 0 || first == job_.summary.end()) return;
  const auto since_submit = std::chrono::duration<double>(services_.now() - job_.created_at).count();
  figures_.begin_after(since_submit - first->get<double>() - worker_seconds);
}

void Reports::append_job(std::vector<Change>& changes) {
  changes.push_back(change::PutJob{job_});
  if (services_.clock.now() - published_ < publish_interval) return;
  note_published();
  changes.push_back(job_item(job_));
}

/// Values that this attempt has not reported yet remain those of the attempt before.
void Reports::summarize() {
  job_.summary.update(figures_.summary());
  if (job_.step == 0 || job_.summary.contains("first_step_seconds")) return;
  job_.summary["first_step_seconds"] = std::chrono::duration<double>(services_.now() - job_.created_at).count();
}

}  // namespace weir::cluster
