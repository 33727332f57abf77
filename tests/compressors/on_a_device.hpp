#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compressors/device/device.hpp"
#include "support.hpp"

namespace weir::compressors::test {

/// The device whose memory the program's kernels work on.
inline const at::Device gpu(device::type_of_kernels(), 0);

/// Whether there is one.
inline bool has_gpu() {
  return gpu.type() != at::DeviceType::CPU && c10::impl::hasDeviceGuardImpl(gpu.type()) &&
         c10::impl::getDeviceGuardImpl(gpu.type())->deviceCount() > 0;
}

inline Compression make(const Case& compressor, const std::string& memory, const nlohmann::json& memory_params) {
  return builtin()
      .make({.compressor = compressor.name,
             .params = compressor.params,
             .memory = memory,
             .memory_params = memory_params,
             .setting = {.momentum = 0.9, .nesterov = memory_params.contains("clip_norm")}})
      .value();
}

inline std::vector<std::string> compressors_on_a_device() {
  std::vector<std::string> names;
  for (const std::string& name : compressor_names()) {
    const Case it{name, nlohmann::json::object()};
    if (it.make()->codes_on(gpu)) names.push_back(name);
  }
  return names;
}

}  // namespace weir::compressors::test
