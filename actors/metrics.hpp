#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "protocol/training.hpp"
#include "training/length.hpp"
#include "training/progress.hpp"

namespace weir::actors {

/// Turns a rank's steps into the points of its time series and keeps these until they are sent. Steps are averaged over
/// a stride that depends only on the step, so that all ranks have their points at the same steps, and a job that
/// resumes from a checkpoint has them where it would have had them anyway. May be used from any thread.
class Metrics {
 public:
  struct Options {
    std::uint64_t steps_total = 1;
    std::uint64_t steps_done = 0;        ///< before the first that is added
    training::WarmupLength warmup = {};  ///< zeros: there is none
  };
  /// A series has a point for each of its first steps, up to twice this many, and then this many points each time the
  /// number of steps doubles. A viewer thus sees points move the line however long the job runs, the newest half of a
  /// run never has fewer points than this, and a million steps are 6,000 points.
  static constexpr std::uint64_t points_per_doubling = 512;
  /// The number of points kept. If the head accepts none for so long that there would be more, the oldest are dropped.
  static constexpr std::size_t points_max = 100'000;

  explicit Metrics(Options options) : options_(options), emitted_step_(options.steps_done) {}

  /// The number of steps that are averaged in the point at `step`. A power of two; points are at its multiples.
  static std::uint64_t stride_at(std::uint64_t step);

  /// Adds a step. `traffic`: totals of the gradient sockets so far.
  void add(const training::StepRecord& record, const collectives::Traffic& traffic);

  /// Adds a step of a server.
  void add(const training::ServedRecord& record, const collectives::Traffic& traffic);

  /// Makes a point of the steps since the last one: the run has ended, maybe between two points.
  void finish();

  /// Adds a value that was measured on the model of an earlier point `at`.
  void add(const std::string& name, const protocol::MetricPoint& at, double value);

  /// Step, time and bytes now, to which a value added later refers. Its name and value are empty.
  protocol::MetricPoint here() const;

  /// Removes and returns the points collected so far; the caller must deliver them.
  std::vector<protocol::MetricPoint> take();

 private:
  void emit(const training::StepRecord& record);
  void emit(const training::ServedRecord& record);
  void move_on(std::uint64_t step, double seconds, const collectives::Traffic& traffic);
  bool is_due(std::uint64_t step);
  bool is_warm(const training::StepRecord& record) const;
  void put(const std::string& name, double value);
  void trim();

  const Options options_;

  mutable std::mutex mutex_;
  training::StepRecord sum_;       ///< sums over the steps since the last points
  training::ServedRecord served_;  ///< the same of a server
  std::uint64_t steps_in_sum_ = 0;
  std::uint64_t emitted_step_;
  std::uint64_t applied_ = 0;           ///< gradients, in all
  std::uint64_t dropped_ = 0;           ///< gradients, in all
  std::uint64_t exchanges_in_sum_ = 0;  ///< of ranks that step by themselves
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
