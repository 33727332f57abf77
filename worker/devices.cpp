#include "worker/devices.hpp"

#include <torch/version.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "compressors/device/device.hpp"
#include "cuda/nccl_library.hpp"
#include "training/device.hpp"

namespace weir::worker {
namespace {

nlohmann::json text_or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

}  // namespace

int print_devices(bool as_json) {
  const auto found = training::devices();
  const auto needed = training::cuda_of_libtorch();
  if (!as_json) {
    std::string list;
    for (const auto& device : found) list += ", " + device.str();
    std::cout << "LibTorch " TORCH_VERSION << (needed.cuda.empty() ? "" : " for CUDA " + needed.cuda)
              << ", which computes on " << (list.empty() ? "processors only" : "processors" + list) << '\n';
    return found.empty() ? 1 : 0;
  }
  const auto nccl = cuda::NcclLibrary::open();
  nlohmann::json said = {{"libtorch", TORCH_VERSION},
                         {"cuda", text_or_null(needed.cuda)},
                         {"cudnn", text_or_null(needed.cudnn)},
                         {"nccl", nccl ? nlohmann::json(cuda::nccl_version_text((*nccl)->version())) : nullptr},
                         {"nccl_problem", nccl ? nlohmann::json() : nlohmann::json(nccl.error().context)},
                         {"kernels_problem", nullptr},
                         {"devices", nlohmann::json::array()}};
  for (const auto& device : found) said["devices"].push_back(device.str());
  if (!found.empty()) {
    if (const auto runs = compressors::device::check_kernels(); !runs) said["kernels_problem"] = runs.error().context;
  }
  std::cout << said.dump() << '\n';
  return found.empty() ? 1 : 0;
}

}  // namespace weir::worker
