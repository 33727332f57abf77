#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/stream.hpp"

/// Runs the kernels' tests on a device. Without one it fails.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto stream = weir::cuda::Stream::make();
  if (!stream) {
    std::fprintf(stderr, "There is no device to test: %s\n", stream.error().message().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
