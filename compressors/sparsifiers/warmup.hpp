#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// DGC's warm-up: a training begins with more on the wire, so that early gradients, which change fast, are not held
/// back. It is a function of the fractional epoch, so that a warm-up of any length passes through all of its ratios.
struct Warmup {
  std::optional<double> epochs = {};     ///< how long; nothing: `share_usual` of the training, `epochs_usual` at most
  double dense = 1;                      ///< share of that with a ratio of 1
  std::string schedule = "exponential";  ///< one of schedules()

  static constexpr double share_usual = 0.5;
  static constexpr double epochs_usual = 4;

  /// How the ratio r comes down in the rest, of which f is over:
  ///     exponential    r^f
  ///     paper          1/4, 1/16, 1/64, 1/256, each for a quarter of it (Lin et al. 2018)
  ///     authors        r^(1/6), r^(2/6), ... r^(5/6), each for a fifth of it (their published code)
  static std::vector<std::string_view> schedules();

  /// In epochs. A training whose length is not known (0) has none unless `epochs` says so.
  double length(double epochs_total) const;

  /// The ratio of a round: never below `base`, and `base` once the warm-up is over.
  double ratio(double base, const Round& round) const;
};

}  // namespace weir::compressors
