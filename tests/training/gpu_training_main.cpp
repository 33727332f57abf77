#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tested_device.hpp"

/// Runs the tests of training on a device on a GPU. Without one it fails.
int main(int argc, char** argv) {
  ::setenv("NVIDIA_TF32_OVERRIDE", "0", 0);  // products of 10 bits would be far from the processor's
  testing::InitGoogleTest(&argc, argv);
  const auto device = weir::training::testing::tested_device();
  if (!device.is_cuda()) {
    std::fputs("There is no device to test: LibTorch finds no GPU, or was built without CUDA.\n", stderr);
    return 1;
  }
  return RUN_ALL_TESTS();
}
