#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/records.hpp"
#include "protocol/training.hpp"

namespace weir::cluster {

/// The metrics of one job: accepts the workers' reports, computes the job's own series from them and keeps the last
/// values. For the job as a whole, samples_per_second and bytes_* are sums over the workers; compression_ratio is
/// bytes_dense / bytes_sent; loss, *_seconds and all others are the mean. accuracy and test_loss are the job's own:
/// whichever worker reports them, they belong to no rank. What servers report is theirs alone: no value of the job
/// waits for them or counts them.
///
/// Workers that count their own steps do not all report the same ones. A value of the job is of the step at which each
/// worker has reported something new, and made of what each had reported newest up to that step: a value for each step
/// where all report the same ones, and otherwise as many as the worker has that reports least.
///
/// A rank counts its time, bytes and gradients from its own start. After a restart the job's counts continue: the
/// totals of earlier attempts are added to the values that the ranks of this attempt report.
class Figures {
 public:
  /// The totals of all attempts of a job so far.
  struct Past {
    struct Rank {
      std::uint64_t wire_bytes = 0;
      std::map<std::string, double> counts;  ///< the last value of each bytes_* and *_gradients
    };
    double wall_seconds = 0;
    std::vector<Rank> ranks;  ///< empty if there was no attempt
  };

  /// Whether a rank counts the metric from its own start: after a restart the count goes on.
  static bool is_count(const std::string& name);

  /// The first `world` of the `members` ranks are workers. `past`: empty for the first attempt. `period`: in one of so
  /// many steps the workers exchange.
  Figures(std::uint32_t world, std::uint32_t members, Past past, std::uint64_t period = 1);

  /// Tells when the first step of this attempt began: so long after that of the job. Not before what has been reported.
  void begin_after(double wall_seconds);

  /// Adds a report of `rank` and returns the rows to store: the rank's own, and the job's.
  std::vector<MetricRow> add(std::uint32_t rank, std::uint64_t step, std::span<const protocol::MetricPoint> points);

  /// All ranks of the job.
  std::size_t members() const { return ranks_.size(); }
  /// Steps completed by all workers, and by one.
  std::uint64_t step() const;
  std::uint64_t step_of(std::uint32_t rank) const { return ranks_.at(rank).step; }

  /// The totals from which the next attempt continues.
  Past past() const;

  /// JobRecord::summary and WorkerRecord::figures: the last values. One step tells little of how fast a job is whose
  /// workers wait in some steps only, so that the summary's samples_per_second is the speed over the newest steps of
  /// this attempt: over the fewest whole periods that are four or more and have at least 64 steps, or over all if there
  /// are fewer. A value of the series counts by its steps, of which it has the more the longer a job runs. A change of
  /// speed shows when so many steps have passed, and at the next value if that has more. What passes between two steps
  /// is left out, as it is out of the values.
  nlohmann::json summary() const;
  nlohmann::json figures_of(std::uint32_t rank) const;

 private:
  struct Rank {
    std::uint64_t step = 0;
    std::uint64_t wire_bytes = 0;
    std::map<std::string, double> last;
  };
  /// The job's samples per second in the `steps` steps up to `step`.
  struct Speed {
    std::uint64_t step = 0;
    std::uint64_t steps = 0;
    double samples_per_second = 0;
  };
  /// The job's values of one metric.
  struct Series {
    std::optional<std::uint64_t> step;           ///< of the newest value
    std::vector<std::deque<MetricRow>> waiting;  ///< by worker: what it has reported of later steps, ascending
  };

  std::span<const Rank> workers() const { return std::span(ranks_).first(world_); }
  MetricRow row_of(std::uint32_t rank, const protocol::MetricPoint& point) const;
  std::uint64_t bytes_of_job(const MetricRow& row) const;
  std::optional<MetricRow> add_to_job(const MetricRow& row);
  void complete(const MetricRow& row, std::vector<MetricRow>& rows);
  void add_speed(std::uint64_t step, double samples_per_second);
  double speed() const;

  Past past_;
  double wall_seconds_;
  const std::uint32_t world_;  ///< workers: the first ranks
  std::vector<Rank> ranks_;
  std::map<std::string, double> job_last_;
  std::map<std::string, Series> series_;
  const std::uint64_t speed_steps_;  ///< over so many of the newest steps the summary's speed is
  std::deque<Speed> speeds_;         ///< those of these steps; the first may have some before them, too
  std::uint64_t steps_in_speeds_ = 0;
  std::optional<MetricRow> dense_;  ///< newest bytes_dense of the job
  std::optional<MetricRow> sent_;   ///< newest bytes_sent of the job
};

}  // namespace weir::cluster
