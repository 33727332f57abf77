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
class Figures {
 public:
  explicit Figures(std::uint32_t world) : workers_(world) {}

  /// The rows to store for a report of `rank`: its own, and the job's for the steps that all ranks have now reported.
  std::vector<MetricRow> add(std::uint32_t rank, std::uint64_t step, std::span<const protocol::MetricPoint> points);

  /// Steps completed by all workers, and by one.
  std::uint64_t step() const;
  std::uint64_t step_of(std::uint32_t rank) const { return workers_.at(rank).step; }

  /// JobRecord::summary and WorkerRecord::figures.
  nlohmann::json summary() const;
  nlohmann::json figures_of(std::uint32_t rank) const;

 private:
  struct Worker {
    std::uint64_t step = 0;
    std::map<std::string, double> last;
  };
  struct Sample {
    std::vector<std::optional<double>> values;  ///< by rank
    std::size_t count = 0;
    double wall_seconds = 0;
    std::uint64_t wire_bytes = 0;
  };

  std::optional<MetricRow> add_to_sample(std::uint32_t rank, const protocol::MetricPoint& point);
  void complete(const MetricRow& row, std::vector<MetricRow>& rows);

  std::vector<Worker> workers_;
  std::map<std::string, double> job_last_;
  std::map<std::pair<std::uint64_t, std::string>, Sample> samples_;  ///< by step and name, not all ranks yet
  std::optional<MetricRow> dense_;                                   ///< newest bytes_dense of the job
  std::optional<MetricRow> sent_;                                    ///< newest bytes_sent of the job
};

}  // namespace weir::cluster
