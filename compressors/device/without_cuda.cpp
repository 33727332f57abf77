// In builds without CUDA.

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/device/device.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/device/memory_steps.hpp"

namespace weir::compressors::device {
namespace {

Error unsupported() { return {Errc::unsupported, "this build has no kernels: it was made without CUDA"}; }

}  // namespace

at::DeviceType type_of_kernels() { return at::DeviceType::CPU; }

bool has_kernels(at::Device) { return false; }

c10::Stream coding_stream(at::Device device) {
  ensure(false, "streams for kernels where there are some");
  return c10::Stream(c10::Stream::DEFAULT, device);
}

Result<std::uint32_t> DeviceValues::sampled_cut(const StridedSample&, std::size_t) const { return unsupported(); }
Result<bool> DeviceValues::collect(std::uint32_t, std::size_t, Selection&) const { return unsupported(); }
Result<void> DeviceValues::select_largest(std::size_t, Selection&) const { return unsupported(); }
Result<NonFinite> DeviceValues::first_non_finite() const { return unsupported(); }
std::span<const float> DeviceValues::on_host() const { return {}; }

Result<void> accumulate_residual(float, float, const at::Tensor&, at::Tensor&, at::Tensor&) { return unsupported(); }
Result<void> accumulate_momentum(const MomentumStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&) {
  return unsupported();
}
Result<double> sum_of_squares(const at::Tensor&) { return unsupported(); }
const cuda::Bins* counts_of(const at::Tensor&) { return nullptr; }
Result<void> add_selection(float, const Selection&, at::Tensor&) { return unsupported(); }
Result<void> clear_selection(std::span<const std::uint32_t>, at::Tensor&) { return unsupported(); }

}  // namespace weir::compressors::device
