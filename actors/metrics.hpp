#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/modes/mode.hpp"
#include "collectives/communicator.hpp"
#include "protocol/training.hpp"

namespace weir::actors {

/// Turns a rank's steps into points of its time series and keeps them until they are sent. Steps are averaged over a
/// stride that depends on the length of the job alone, so that all ranks have their points at the same steps.
/// Any thread.
class Metrics {
 public:
  struct Options {
    std::uint64_t steps_total = 1;
    std::uint64_t warmup_steps = 0;  ///< while the compressor compresses less; 0: it never does
  };
  /// A series has about this many points at most.
  static constexpr std::uint64_t points_per_series = 2000;
  /// Points kept. When the head takes none for so long that there would be more, the oldest go.
  static constexpr std::size_t points_max = 100'000;

  explicit Metrics(Options options);

  /// `traffic` of the gradient sockets until now.
  void add(const StepRecord& record, const collectives::Traffic& traffic);

  /// A value that was measured on what the model was at `at`.
  void add(const std::string& name, const protocol::MetricPoint& at, double value);

  /// Step, time and bytes now: what a later value refers to. Its name and value are empty.
  protocol::MetricPoint here() const;

  /// The points that have come together, which are then the caller's to deliver.
  std::vector<protocol::MetricPoint> take();

 private:
  void emit(const StepRecord& record);
  void put(const std::string& name, double value);
  void trim();

  const Options options_;
  const std::uint64_t stride_;

  mutable std::mutex mutex_;
  StepRecord sum_;  ///< over the steps since the last points
  std::uint64_t steps_in_sum_ = 0;
  std::uint64_t dense_bytes_ = 0;
  collectives::Traffic traffic_;
  std::optional<std::chrono::steady_clock::time_point> start_;
  struct Warm {
    std::uint64_t sent_bytes = 0;
    std::uint64_t dense_bytes = 0;
  };
  std::optional<Warm> warm_;  ///< what had been sent when the warm-up ended
  protocol::MetricPoint here_;
  std::vector<protocol::MetricPoint> points_;
};

}  // namespace weir::actors
