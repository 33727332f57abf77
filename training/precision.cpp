#include "training/precision.hpp"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "base/errc.hpp"

namespace weir::training {
namespace {

// LibTorch 2.4 has one function for all devices where earlier versions have one for each.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

using at::autocast::get_autocast_dtype;
using at::autocast::is_autocast_enabled;
using at::autocast::set_autocast_dtype;
using at::autocast::set_autocast_enabled;

#else

bool is_autocast_enabled(at::DeviceType type) {
  return type == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void set_autocast_enabled(at::DeviceType type, bool on) {
  type == at::kCPU ? at::autocast::set_cpu_enabled(on) : at::autocast::set_enabled(on);
}
at::ScalarType get_autocast_dtype(at::DeviceType type) {
  return type == at::kCPU ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
}
void set_autocast_dtype(at::DeviceType type, at::ScalarType numbers) {
  type == at::kCPU ? at::autocast::set_autocast_cpu_dtype(numbers) : at::autocast::set_autocast_gpu_dtype(numbers);
}

#endif

}  // namespace

Autocast::Autocast(at::DeviceType type)
    : type_(type), was_on_(is_autocast_enabled(type)), numbers_before_(get_autocast_dtype(type)) {
  set_autocast_dtype(type_, at::kBFloat16);
  set_autocast_enabled(type_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set_autocast_enabled(type_, was_on_);
  set_autocast_dtype(type_, numbers_before_);
}

at::Tensor logits_of(Model& model, const at::Tensor& input, protocol::Precision precision) {
  if (precision == protocol::Precision::float32) return model.forward(input);
  const Autocast autocast(input.device().type());
  return model.forward(input).to(at::kFloat);
}

Result<void> check_precision(protocol::Precision precision, at::Device device) {
  if (precision == protocol::Precision::float32 || device.is_cpu() || device.is_cuda()) return {};
  return Error{Errc::unsupported,
               "training.precision \"bfloat16\" is for processors and for CUDA, and this worker "
               "computes on " +
                   device.str()};
}

}  // namespace weir::training
