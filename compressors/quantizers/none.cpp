#include "compressors/quantizers/none.hpp"

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"

namespace weir::compressors {

Traits None::traits() const {
  return {.passes = {Reduction::sum},
          .lossless = true,
          .biased = false,
          .mean_only = true,
          .device_misfit = "it sends every entry as it is, so that all of them come down in any case"};
}

Result<void> None::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  constexpr std::size_t block = 8192;  // floats: checked, then copied while they are in the cache
  const std::span<const float> values = flat(gradient);
  out.reserve(out.size() + values.size_bytes());
  for (std::size_t start = 0; start < values.size(); start += block) {
    const auto part = values.subspan(start, std::min(block, values.size() - start));
    if (!all_finite(part)) return non_finite(round, values);
    append(out, std::as_bytes(part));
  }
  return {};
}

Result<void> None::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  if (payload.size() != target.size_bytes()) {
    return Error(Errc::malformed, "a dense payload of " + std::to_string(payload.size()) +
                                      " bytes came for a tensor of " + std::to_string(target.size()) + " floats");
  }
  add_scaled(weight, payload, target);
  return {};
}

}  // namespace weir::compressors
