#pragma once

#include <c10/core/Device.h>

#include "training/device.hpp"

namespace weir::training::testing {

/// The device that tests of devices are for: the emulated one where it is linked, else the first GPU. The processor if
/// there is neither.
inline at::Device tested_device() {
  const auto all = devices();
  for (const auto& device : all) {
    if (device.type() == at::DeviceType::PrivateUse1) return device;
  }
  return all.empty() ? at::Device(at::kCPU) : all.front();
}

/// Whether it gives the processor's bits, does late what may be late, and is as small as a test wants it.
inline bool is_emulated() { return tested_device().type() == at::DeviceType::PrivateUse1; }

}  // namespace weir::training::testing
