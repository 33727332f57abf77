#pragma once

#include <cstdint>
#include <vector>

#include "cluster/figures.hpp"
#include "cluster/plan_events.hpp"
#include "cluster/services.hpp"
#include "cluster/store.hpp"
#include "protocol/training.hpp"

namespace weir::cluster {

/// What the workers of an attempt report: their metrics, traffic and plans. Lives on the head's strand.
class Reports {
 public:
  /// `job` is kept up to date with what is reported; it must outlive this object. `past`: of the attempts before.
  Reports(Services& services, JobRecord& job, std::uint64_t attempt, std::uint32_t world, Figures::Past past);

  /// Commits a report. A repeated one is committed once. Fails with: invalid_argument (numbers that cannot be), and the
  /// errors of the store, after which the report may be repeated.
  net::awaitable<Result<void>> add(protocol::Report report);

  /// The job has just been published otherwise.
  void note_published() { published_ = services_.clock.now(); }

  const Figures& figures() const { return figures_; }

 private:
  std::vector<Change> changes_of(protocol::Report& report);
  void summarize();

  Services& services_;
  JobRecord& job_;
  const std::uint64_t attempt_;
  Figures figures_;
  PlanEvents plan_events_;
  std::vector<std::uint64_t> accepted_;  ///< by rank: sequence number of the last report
  runtime::Clock::time_point published_{};
};

}  // namespace weir::cluster
