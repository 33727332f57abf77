#include <gtest/gtest.h>

#include <cstdio>

#include "on_a_device.hpp"

/// Runs the tests of coding on a device on a GPU. Without one it fails.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!weir::compressors::test::has_gpu()) {
    std::fputs("There is no device to test: LibTorch finds no GPU, or it or this program was built without CUDA.\n",
               stderr);
    return 1;
  }
  return RUN_ALL_TESTS();
}
