#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "on_a_device.hpp"

/// Runs the tests of coding on a device on a GPU. Without one it fails.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto type = weir::compressors::test::gpu.type();
  const bool has_one = type != at::DeviceType::CPU && c10::impl::hasDeviceGuardImpl(type) &&
                       c10::impl::getDeviceGuardImpl(type)->deviceCount() > 0;
  if (!has_one) {
    std::fputs("There is no device to test: LibTorch finds no GPU, or it or this program was built without CUDA.\n",
               stderr);
    return 1;
  }
  return RUN_ALL_TESTS();
}
