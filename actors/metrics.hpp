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
/// stride that is a function of the step alone, so that all ranks have their points at the same steps, and a job that
/// goes on from a checkpoint has them where it would have had them. Any thread.
class Metrics {
 public:
  struct Options {
    std::uint64_t steps_total = 1;
    std::uint64_t warmup_steps = 0;  ///< while the compressor compresses less; 0: it never does
  };
  /// A series has a point for each of its first steps, up to twice this many, then this many each time that the number
  /// of steps doubles: whoever watches sees a point move the line however long the job will be, the newest half of a
  /// run is never drawn with fewer, and a million steps are 6,000 points.
  static constexpr std::uint64_t points_per_doubling = 512;
  /// Points kept. When the head takes none for so long that there would be more, the oldest go.
  static constexpr std::size_t points_max = 100'000;

  explicit Metrics(Options options) : options_(options) {}

  /// How many steps are joined in the point at `step`, a power of two: the points stand at its multiples.
  static std::uint64_t stride_at(std::uint64_t step);

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
