#include "training/device.hpp"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/errc.hpp"
#include "cuda/nvml.hpp"

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

std::optional<Driver> driver() {
  const auto nvml = cuda::Nvml::open();
  if (!nvml) return std::nullopt;
  return Driver{(*nvml)->driver_version(), (*nvml)->cuda_version()};
}

/// 9.10.2 is 91002, and 8.9.2 was 8902.
std::string cudnn_text(long version) {
  const long unit = version < 10'000 ? 1000 : 10'000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

const c10::impl::DeviceGuardImplInterface& streams_of(at::Device device) {
  return *c10::impl::getDeviceGuardImpl(device.type());
}

CudaOfLibtorch cuda_of_libtorch() {
  const auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDART()) return {};
  const long cuda = hooks.versionCUDART();
  CudaOfLibtorch found{std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10), {}};
  try {
    found.cudnn = cudnn_text(hooks.versionCuDNN());
  } catch (const c10::Error&) {  // it was built without
  }
  return found;
}

OwnGpu own_gpu() {
  const std::string visible = visible_gpus();
  const std::string uuid = visible.substr(0, visible.find(','));
  OwnGpu own{.name = uuid.empty() ? "the GPU" : "GPU " + uuid};
  const auto nvml = cuda::Nvml::open();
  const auto all = nvml ? (*nvml)->read() : Result<std::vector<cuda::Gpu>>(nvml.error());
  for (const auto& gpu : all ? *all : std::vector<cuda::Gpu>()) {
    if (gpu.uuid != uuid) continue;
    own.name += " (" + gpu.name + ")";
    own.total_bytes = gpu.memory_total_bytes;
    const auto used = gpu.sample.memory_used_bytes;
    if (used) own.free_bytes = gpu.memory_total_bytes - std::min(*used, gpu.memory_total_bytes);
  }
  own.name += " of node " + host_name();
  return own;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "this node";
}

std::string why_no_gpu(const std::string& node, const std::string& visible, const std::string& needed,
                       const std::optional<Driver>& driver) {
  const auto major = [](const std::string& version) { return std::atoi(version.c_str()); };
  // CUDA runs with every driver of its major version, and with later ones.
  if (driver && !driver->cuda.empty() && major(driver->cuda) < major(needed)) {
    return "the NVIDIA driver " + driver->version + " of node " + node + " is too old to compute on GPU " + visible +
           ": it is for CUDA up to " + driver->cuda + ", and LibTorch for CUDA " + needed;
  }
  return "LibTorch finds no GPU on node " + node + " where CUDA_VISIBLE_DEVICES is \"" + visible +
         "\": `weir doctor` there says what its driver answers";
}

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
    return Error{Errc::not_found, why_no_gpu(host_name(), visible, cuda_of_libtorch().cuda, driver()) + advice};
  }
  return Error{Errc::unsupported,
               "the LibTorch that this weir-worker was built with computes on processors only, and "
               "the job has booked GPU " +
                   visible + ": build it with a LibTorch for CUDA (CMAKE_PREFIX_PATH)" + advice};
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : tensor.detach().to(at::kCPU); }

std::vector<at::Tensor> all_on_host(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> here;
  if (tensors.empty() || tensors.front().is_cpu()) {
    for (const at::Tensor& tensor : tensors) here.push_back(tensor.contiguous());
    return here;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().reshape({-1}));
  const at::Tensor there = at::cat(flat);
  const at::Tensor all = at::empty(there.sizes(), host_memory_for(there.device()).dtype(there.scalar_type()));
  all.copy_(there);
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    here.push_back(all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return here;
}

at::Tensor copy_beside(const at::Tensor& other, const at::Tensor& tensor) {
  return tensor.detach().to(other.device(), tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

at::TensorOptions host_memory_for(at::Device device) {
  return at::TensorOptions(at::kFloat).pinned_memory(device.is_cuda());
}

}  // namespace weir::training
