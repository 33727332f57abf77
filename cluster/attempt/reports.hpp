#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/figures.hpp"
#include "cluster/plan_events.hpp"
#include "cluster/services.hpp"
#include "cluster/store.hpp"
#include "protocol/training.hpp"
#include "runtime/event.hpp"

namespace weir::cluster {

/// What the processes of an attempt report: their metrics, traffic and plans. Lives on the head's strand.
class Reports {
 public:
  /// `job` is kept up to date with what is reported; it must outlive this object. `figures`: of this attempt, to which
  /// nothing has been reported yet.
  Reports(Services& services, JobRecord& job, std::uint64_t attempt, Figures figures);

  /// Commits a report. A repeated one is committed once, and answered once it is. Fails with: invalid_argument (numbers
  /// that cannot be), conflict (the store has no such job any more), cancelled (it is closed), exhausted (the store has
  /// failed otherwise; the report is to be repeated).
  net::awaitable<Result<void>> add(protocol::Report report);

  /// The first step begins now.
  void training_begins();

  /// The longest time that a rank has taken for a step, or for those between two of its reports; 0: not known yet.
  runtime::Clock::duration longest_step() const { return longest_step_; }

  /// The job has just been published otherwise.
  void note_published() { published_ = services_.clock.now(); }

  const Figures& figures() const { return figures_; }

 private:
  /// What has come of the reports of a rank, which sends the next one when the last one is acknowledged.
  struct Rank {
    std::uint64_t committed = 0;  ///< sequence number of the last report that is in the store
    std::uint64_t counted = 0;    ///< of the last one that the figures contain
    std::vector<Change> changes;  ///< what that one changes, until it is committed: a repeat changes the same
    std::optional<runtime::Event> under_way;               ///< set when the commit under way has ended
    std::optional<runtime::Clock::time_point> step_begun;  ///< after the last one that it has reported
  };

  std::vector<Change> changes_of(protocol::Report& report);
  void note_step(Rank& rank);
  void continue_time(double worker_seconds);
  void append_job(std::vector<Change>& changes);
  void summarize();
  Error to_repeat(const Error& failure);

  Services& services_;
  JobRecord& job_;
  const std::uint64_t attempt_;
  Figures figures_;
  PlanEvents plan_events_;
  std::vector<Rank> ranks_;
  runtime::Clock::time_point published_{};
  runtime::Clock::duration longest_step_{};
  bool has_begun_ = false;    ///< a value of this attempt has been reported
  bool store_fails_ = false;  ///< it has refused the last report
};

}  // namespace weir::cluster
