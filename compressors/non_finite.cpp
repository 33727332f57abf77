#include "compressors/non_finite.hpp"

#include <cmath>
#include <string>

#include "base/errc.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

Error non_finite(const Round& round, std::span<const float> values) {
  const std::size_t at = find_non_finite(values);
  return Error(Errc::invalid_argument,
               "the gradient of tensor " + std::to_string(round.tensor) + " is " +
                   (at < values.size() && std::isinf(values[at]) ? "infinite" : "not a number") + " at entry " +
                   std::to_string(at) + " in step " + std::to_string(round.step));
}

}  // namespace weir::compressors
