// In place of compressors/device/kernels_device.cpp: the kernels of these tests work on the emulated device.

#include "compressors/device/device.hpp"

namespace weir::compressors::device {

at::DeviceType type_of_kernels() { return at::DeviceType::PrivateUse1; }

}  // namespace weir::compressors::device
