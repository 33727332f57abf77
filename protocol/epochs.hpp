#pragma once

#include <cmath>
#include <cstdint>

namespace weir::protocol {

/// The steps of so many epochs, of which there may be a part. 1.1 times 50 is more than 55 in binary: such an error is
/// no part of a step.
inline double fractional_steps(double epochs, std::uint64_t steps_per_epoch) {
  constexpr double rounding = 1e-12;
  const double steps = epochs * static_cast<double>(steps_per_epoch);
  const double whole = std::round(steps);
  return std::abs(steps - whole) <= rounding * steps ? whole : steps;
}

/// The same; a step of which there is a part is made whole.
inline std::uint64_t steps_in(double epochs, std::uint64_t steps_per_epoch) {
  return static_cast<std::uint64_t>(std::ceil(fractional_steps(epochs, steps_per_epoch)));
}

}  // namespace weir::protocol
