#include "compressors/non_finite.hpp"

#include <cmath>
#include <string>

#include "base/errc.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"

namespace weir::compressors {

Result<bool> all_finite(const at::Tensor& tensor) {
  return tensor.is_cpu() ? Result<bool>(all_finite(flat(tensor))) : device::all_finite(tensor);
}

Error non_finite(const Round& round, std::span<const float> values) {
  return non_finite(round, HostValues(values, {}).first_non_finite());
}

Error non_finite(const Round& round, const at::Tensor& gradient) {
  return gradient.is_cpu() ? non_finite(round, flat(gradient))
                           : non_finite(round, device::DeviceValues(gradient, nullptr).first_non_finite());
}

Error non_finite(const Round& round, const Result<NonFinite>& found) {
  if (!found) return found.error();
  return Error(Errc::invalid_argument, std::string("it is ") +
                                           (std::isinf(found->value) ? "infinite" : "not a number") + " at entry " +
                                           std::to_string(found->at) + " in step " + std::to_string(round.step));
}

}  // namespace weir::compressors
