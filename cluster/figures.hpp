#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/records.hpp"
#include "protocol/training.hpp"

namespace weir::cluster {

/// The numbers of one job: takes the workers' reports, makes the job's own series of them and keeps the last values.
/// Of the job as a whole, loss is the mean over the workers; samples_per_second and bytes_* are sums; *_seconds is the
/// slowest worker's; compression_ratio is bytes_dense / bytes_sent. accuracy and test_loss are the job's own: whichever
/// worker reports them, they belong to no rank.
///
/// A worker counts its time and bytes from its own start. A job that goes on after a restart goes on counting: what
/// earlier attempts took is added to what the workers of this one say.
class Figures {
 public:
  /// What the attempts of a job until now have taken.
  struct Past {
    struct Rank {
      std::uint64_t wire_bytes = 0;
      std::map<std::string, double> bytes;  ///< the last value of each bytes_* metric
    };
    double wall_seconds = 0;
    std::vector<Rank> ranks;  ///< empty: there was none
  };

  /// `past`: empty for the first attempt.
  Figures(std::uint32_t world, Past past);

  /// The rows to store for a report of `rank`: its own, and the job's for the steps that all ranks have now reported.
  std::vector<MetricRow> add(std::uint32_t rank, std::uint64_t step, std::span<const protocol::MetricPoint> points);

  /// Steps completed by all workers, and by one.
  std::uint64_t step() const;
  std::uint64_t step_of(std::uint32_t rank) const { return workers_.at(rank).step; }

  /// What the next attempt goes on from.
  Past past() const;

  /// JobRecord::summary and WorkerRecord::figures.
  nlohmann::json summary() const;
  nlohmann::json figures_of(std::uint32_t rank) const;

 private:
  struct Worker {
    std::uint64_t step = 0;
    std::uint64_t wire_bytes = 0;
    std::map<std::string, double> last;
  };
  struct Sample {
    std::vector<std::optional<double>> values;  ///< by rank
    std::size_t count = 0;
    double wall_seconds = 0;
    std::uint64_t wire_bytes = 0;
  };

  MetricRow row_of(std::uint32_t rank, const protocol::MetricPoint& point) const;
  std::uint64_t bytes_of_job(const MetricRow& row) const;
  std::optional<MetricRow> add_to_sample(const MetricRow& row);
  void complete(const MetricRow& row, std::vector<MetricRow>& rows);

  const Past past_;
  double wall_seconds_;
  std::vector<Worker> workers_;
  std::map<std::string, double> job_last_;
  std::map<std::pair<std::uint64_t, std::string>, Sample> samples_;  ///< by step and name, not all ranks yet
  std::optional<MetricRow> dense_;                                   ///< newest bytes_dense of the job
  std::optional<MetricRow> sent_;                                    ///< newest bytes_sent of the job
};

}  // namespace weir::cluster
