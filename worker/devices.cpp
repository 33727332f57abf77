#include "worker/devices.hpp"

#include <torch/version.h>

#include <iostream>
#include <string>

#include "training/device.hpp"

namespace weir::worker {

int print_devices() {
  std::string list;
  for (const auto& device : training::devices()) list += ", " + device.str();
  std::cout << "LibTorch " TORCH_VERSION ", which computes on "
            << (list.empty() ? "processors only" : "processors" + list) << '\n';
  return list.empty() ? 1 : 0;
}

}  // namespace weir::worker
