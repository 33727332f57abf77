#pragma once

#include <optional>
#include <vector>

namespace weir::compressors {

/// DGC's warm-up: the first epochs send more, so that early, fast-changing gradients are not held back.
struct Warmup {
  double epochs = 0;
  /// The ratio of epoch e is coefficient^(e + 1); without one, base^((e + 1) / (epochs + 1)).
  std::optional<double> coefficient = std::nullopt;
  /// One ratio per epoch, in the place of `epochs` and `coefficient`.
  std::vector<double> ratios = {};

  double length() const;

  /// The ratio in (fractional) epoch `epoch`: never below `base`, and `base` once the warm-up is over.
  double ratio(double base, double epoch) const;
};

}  // namespace weir::compressors
