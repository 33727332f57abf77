// In builds with CUDA. Tests, whose kernels run on an emulator, have the emulated device instead.

#include "compressors/device/device.hpp"
#include "cuda/kernels/present.hpp"

namespace weir::compressors::device {

at::DeviceType type_of_kernels() { return at::DeviceType::CUDA; }

Result<void> check_kernels() {
  static const Result<void> found = cuda::check_kernels();
  return found;
}

}  // namespace weir::compressors::device
