#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/result.hpp"

namespace weir::training {

/// What a worker tells the state server between its local steps.
struct WorkerState {
  std::uint64_t round = 0;  ///< the exchanges that it has been through
  std::uint64_t steps = 0;  ///< local steps since the last of them
  double step_seconds = 0;  ///< what each of the steps took that it has made since it last asked; 0: none
  // What its own part of the last exchange took, without waiting for others; 0: not known.
  double encode_seconds = 0;
  double link_seconds = 0;  ///< in which its link carries what it sent
  double share = 1;         ///< of the chosen entries that it sent
  /// Local steps that all workers together had before them when the round began. All of them say the same.
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
};

/// How many local steps each worker makes between two exchanges: so many that all have encoded what they send at about
/// the time at which the slowest one has after one step (ESync, Li et al. 2020). What goes over the links does so when
/// all take part, so the exchange of a worker with a slow link would not be over sooner if that worker had been ready
/// before the others: what its link takes is not counted. Everyone makes one step at least; otherwise a round has no
/// more steps than are left.
///
/// A worker asks at the beginning of a round and whenever it has made the steps that it was granted. The answer is how
/// many more it has time for; none: it goes into the exchange. All times are durations on the worker's own clock or
/// moments on the state server's: the clocks of different hosts are never compared.
class StepBudget {
 public:
  struct Options {
    std::uint32_t workers = 1;
    /// Of a worker in one round, however slow another one is.
    std::uint64_t steps_max = 10'000;
    /// Share of the newest duration in the smoothed one. A worker's first duration counts only until there is another:
    /// first steps are slow everywhere.
    double smoothing = 0.3;
  };
  explicit StepBudget(const Options& options);

  /// The answer to `worker`, who asks at the moment `now` (seconds). Fails with: malformed (not what can follow what
  /// the worker has said before, or other than what the others say).
  Result<std::uint64_t> more(std::uint32_t worker, const WorkerState& state, double now);

  /// What a step of the worker takes, in seconds; 0: not known yet.
  double step_seconds(std::uint32_t worker) const { return workers_[worker].step_seconds; }

  /// The largest of those.
  double slowest_step() const { return std::ranges::max(workers_, {}, &Worker::step_seconds).step_seconds; }

 private:
  struct Worker {
    std::uint64_t round = 0;
    std::uint64_t granted = 0;  ///< steps in the round
    bool asked = false;         ///< in the round
    bool ready = false;         ///< it has been sent into the exchange of the round
    double answered = 0;        ///< when it was given its last answer
    std::uint64_t given = 0;    ///< the last answer
    double step_seconds = 0;
    double encode_seconds = 0;
    std::uint32_t durations = 0;
  };

  Result<void> check(std::uint32_t worker, const WorkerState& state) const;
  void learn(Worker& worker, const WorkerState& state) const;
  /// When `worker` could have encoded what it sends.
  double end_of(const Worker& worker, std::uint64_t round, double now) const;
  /// What a worker may be granted in a round without taking the first step from anyone.
  std::uint64_t free_steps(const Worker& worker) const;

  const Options options_;
  std::vector<Worker> workers_;
  std::uint64_t round_ = 0;        ///< the newest
  bool begun_ = false;             ///< somebody has asked
  std::uint64_t left_before_ = 0;  ///< when the round began
  std::uint64_t left_ = 0;         ///< now
};

}  // namespace weir::training
