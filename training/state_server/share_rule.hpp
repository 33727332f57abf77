#pragma once

#include <cstdint>
#include <vector>

#include "training/state_server/step_budget.hpp"

namespace weir::training {

/// Which share of the entries that its compressor chooses each worker sends: the less, the slower its link is, so that
/// all are done with sending at about the same time.
///
/// For worker w, with e the seconds in which it encodes and t those in which its link would carry all that is chosen:
///
///     T = the larger of the (lower) median of e + t over the workers and a tenth of the slowest worker's step
///     wanted = (T - e) / t, within share_min and 1; 1 if t is at most a quarter above its own (lower) median
///     share = share ^ 0.7 * wanted ^ 0.3        after each exchange; at first 1
///
/// An exchange that is short beside a step is not worth leaving anything out. What e and t are is smoothed as well:
/// 3/10 of the newest. Until all workers are known, all send all.
class ShareRule {
 public:
  static constexpr double share_min = 1.0 / 16;
  static constexpr double smoothing = 0.3;

  explicit ShareRule(std::uint32_t workers) : workers_(workers) {}

  /// What a worker tells after an exchange; durations that are none have been refused. `slowest_step`: in seconds.
  void learn(std::uint32_t worker, const WorkerState& state, double slowest_step);

  double share(std::uint32_t worker) const { return workers_[worker].share; }

 private:
  struct Worker {
    double encode = 0;
    double link = 0;  ///< of all that is chosen
    double share = 1;
    bool known = false;
  };

  std::vector<Worker> workers_;
};

}  // namespace weir::training
