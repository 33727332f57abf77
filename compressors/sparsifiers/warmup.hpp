#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// DGC's warm-up: a training starts with less compression, so that early gradients, which change fast, are not delayed.
/// The ratio is a function of the fractional epoch, so a warm-up of any length passes through all of its ratios.
struct Warmup {
  std::optional<double> epochs = {};     ///< length; nothing: share_usual() of the training, at most `epochs_usual`
  double dense = 1;                      ///< share of the warm-up with a ratio of 1
  std::string schedule = "exponential";  ///< one of schedules()

  /// Of the training. Where the rate falls, the longer a training is dense the better it takes late gradients; at a
  /// constant rate a long dense beginning makes the change to them worse (docs/dgc.md).
  static constexpr double share_usual(bool rate_falls) { return rate_falls ? 0.5 : 0.1; }
  static constexpr double epochs_usual = 4;

  /// How the ratio falls to r in the rest of the warm-up, of which the fraction f is over:
  ///     exponential    r^f
  ///     paper          1/4, 1/16, 1/64, 1/256, each for a quarter of it (Lin et al. 2018)
  ///     authors        r^(1/6), r^(2/6), ... r^(5/6), each for a fifth of it (their published code)
  static std::vector<std::string_view> schedules();

  /// In epochs. If the length of the training is not known (0), there is no warm-up unless `epochs` is set.
  double length(const TrainingCourse& course) const;

  /// The ratio of a round: never below `base`, and `base` once the warm-up is over.
  double ratio(double base, const Round& round) const;
};

}  // namespace weir::compressors
