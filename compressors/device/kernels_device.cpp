// In builds with CUDA. Tests, whose kernels run on an emulator, have the emulated device instead.

#include "compressors/device/device.hpp"

namespace weir::compressors::device {

at::DeviceType type_of_kernels() { return at::DeviceType::CUDA; }

}  // namespace weir::compressors::device
