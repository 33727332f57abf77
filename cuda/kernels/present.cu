#include "cuda/kernels/present.hpp"

#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "base/errc.hpp"
#include "cuda/check.cuh"

namespace weir::cuda {
namespace {

/// Stands for all kernels, which are built for the same GPUs. Is never launched.
__global__ void present_kernel() {}

/// 13.0 of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<void> check_driver() {
  int driver = 0;
  int needed = 0;
  if (auto asked = check(cudaDriverGetVersion(&driver), "the driver's version"); !asked) return asked;
  if (auto asked = check(cudaRuntimeGetVersion(&needed), "the version of CUDA's runtime"); !asked) return asked;
  if (driver == 0) return Error(Errc::unsupported, "there is no NVIDIA driver");
  // CUDA runs with every driver of its major version, and with later ones.
  if (driver / 1000 >= needed / 1000) return {};
  return Error(Errc::unsupported, "the NVIDIA driver is for CUDA up to " + version_text(driver) +
                                      ", and the kernels of this weir for CUDA " + version_text(needed));
}

}  // namespace

Result<void> check_kernels() {
  if (auto fits = check_driver(); !fits) return fits;
  cudaFuncAttributes attributes{};
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, present_kernel);
  if (answer == cudaSuccess) return {};
  cudaGetLastError();  // forgets it: the next launch is not to be blamed
  if (answer != cudaErrorNoKernelImageForDevice) return check(answer, "looking for kernels");
  int device = 0;
  int major = 0;
  int minor = 0;
  if (auto asked = check(cudaGetDevice(&device), "the GPU in use"); !asked) return asked;
  for (const auto& [number, attribute] :
       {std::pair(&major, cudaDevAttrComputeCapabilityMajor), std::pair(&minor, cudaDevAttrComputeCapabilityMinor)}) {
    if (auto asked = check(cudaDeviceGetAttribute(number, attribute, device), "the GPU's compute capability"); !asked) {
      return asked;
    }
  }
  return Error(Errc::unsupported, "this weir has no kernels for a GPU of compute capability " + std::to_string(major) +
                                      "." + std::to_string(minor) + ": unless built for others, for 8.0 and newer");
}

}  // namespace weir::cuda
