// In place of compressors/device/kernels_device.cpp: the kernels of these tests work on the emulated device.

#include "compressors/device/device.hpp"
#include "cuda/kernels/present.hpp"

namespace weir::compressors::device {

at::DeviceType type_of_kernels() { return at::DeviceType::PrivateUse1; }

Result<void> check_kernels() { return cuda::check_kernels(); }  // each time: a test changes the device

}  // namespace weir::compressors::device
