#include "training/device.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/errc.hpp"

namespace weir::training {
namespace {

/// What LibTorch may compute on beside the processor: CUDA, or what somebody has registered with it from outside.
constexpr std::array device_types{at::DeviceType::CUDA, at::DeviceType::PrivateUse1};

bool is_built(at::DeviceType type) { return c10::impl::hasDeviceGuardImpl(type); }

/// What the node has given to this process: it sets the variable for every worker, if it knows of GPUs.
std::string visible_gpus() {
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<at::Device> devices() {
  std::vector<at::Device> found;
  for (const auto type : device_types) {
    const int count = is_built(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount() : 0;
    for (int i = 0; i < count; ++i) found.emplace_back(type, static_cast<c10::DeviceIndex>(i));
  }
  return found;
}

Result<at::Device> device_for(const protocol::Resources& each) {
  const auto booked = each.find("gpu");
  const std::string visible = visible_gpus();
  if (booked == each.end() || booked->second <= 0 || visible.empty()) return at::Device(at::kCPU);
  if (const auto found = devices(); !found.empty()) return found.front();
  const std::string advice = "; without resources.per_worker.gpu the job trains on processors";
  if (std::ranges::any_of(device_types, is_built)) {
    return Error{Errc::not_found, "LibTorch finds no GPU where CUDA_VISIBLE_DEVICES is \"" + visible +
                                      "\": `weir doctor` on this node says what its driver answers" + advice};
  }
  return Error{Errc::unsupported,
               "the LibTorch that this weir-worker was built with computes on processors only, and "
               "the job has booked GPU " +
                   visible + ": build it with a LibTorch for CUDA (CMAKE_PREFIX_PATH)" + advice};
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : tensor.detach().to(at::kCPU); }

at::Tensor copy_beside(const at::Tensor& other, const at::Tensor& tensor) {
  return tensor.detach().to(other.device(), tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

at::TensorOptions host_memory_for(at::Device device) {
  return at::TensorOptions(at::kFloat).pinned_memory(device.is_cuda());
}

}  // namespace weir::training
