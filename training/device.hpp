#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/resources.hpp"

namespace weir::training {

/// The devices beside the processor that this process's LibTorch finds.
std::vector<at::Device> devices();

/// What makes and knows the streams of a device that is not the processor.
const c10::impl::DeviceGuardImplInterface& streams_of(at::Device device);

/// What this process's LibTorch was built for, as "13.0" and "9.10.2"; empty where it is not.
struct CudaOfLibtorch {
  std::string cuda;
  std::string cudnn;
};
CudaOfLibtorch cuda_of_libtorch();

/// What the driver of this machine says of itself.
struct Driver {
  std::string version;  ///< "580.65.06"
  std::string cuda;     ///< the newest that it is for, "13.0"
};

/// The GPU that its node has given to this process, or the first of them, as the driver tells it now.
struct OwnGpu {
  std::string name;                              ///< "GPU GPU-1 (NVIDIA H200) of node alpha", as much as is known
  std::optional<std::uint64_t> free_bytes = {};  ///< other processes take some, too
  std::optional<std::uint64_t> total_bytes = {};
};
OwnGpu own_gpu();

/// The name of this machine.
std::string host_name();

/// A sentence on why a LibTorch for CUDA `needed` finds no GPU on `node` where `visible` is given to this process.
/// `driver`: null if it does not answer.
std::string why_no_gpu(const std::string& node, const std::string& visible, const std::string& needed,
                       const std::optional<Driver>& driver);

/// Where a worker that has booked `each` (resources.per_worker of its job) computes: on the first GPU that its node has
/// given it, or on the processor. A node without a driver only counts what it calls GPUs, and gives none. Fails with:
/// unsupported (this worker's LibTorch computes on processors only), not_found (it sees no GPU).
Result<at::Device> device_for(const protocol::Resources& each);

/// The same values in the host's memory, which may be read at once: the tensor itself if it is there. Waits for the
/// device otherwise.
at::Tensor on_host(const at::Tensor& tensor);

/// The same of several tensors of one type, which lie beside each other; contiguous. Those of a device come down in one
/// copy, behind what is in the calling thread's current stream.
std::vector<at::Tensor> all_on_host(std::span<const at::Tensor> tensors);

/// A copy of `tensor` on the device of `other`.
at::Tensor copy_beside(const at::Tensor& other, const at::Tensor& tensor);

/// How to make a tensor of the host's memory that is to be copied from and to `device` while others compute.
at::TensorOptions host_memory_for(at::Device device);

}  // namespace weir::training
