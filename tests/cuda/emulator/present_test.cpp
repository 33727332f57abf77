#include "cuda/kernels/present.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/errc.hpp"
#include "cuda/kernels/copy.hpp"

namespace weir::cuda {
namespace {

class PresentTest : public testing::Test {
 protected:
  ~PresentTest() override {
    ::unsetenv("WEIR_EMULATED_GPU_CAPABILITY");
    ::unsetenv("WEIR_EMULATED_DRIVER");
  }
};

TEST_F(PresentTest, KernelsAreThereForANewGpuWithANewDriver) {
  EXPECT_TRUE(check_kernels());
  ::setenv("WEIR_EMULATED_GPU_CAPABILITY", "120", 1);
  ::setenv("WEIR_EMULATED_DRIVER", "13010", 1);
  EXPECT_TRUE(check_kernels());
}

TEST_F(PresentTest, AnOldGpuIsToldWithItsComputeCapability) {
  ::setenv("WEIR_EMULATED_GPU_CAPABILITY", "75", 1);
  EXPECT_EQ(check_kernels().error(), Error(Errc::unsupported,
                                           "this weir has no kernels for a GPU of compute capability 7.5: unless built "
                                           "for others, for 8.0 and newer"));
  float entry = 0;
  EXPECT_FALSE(copy(&entry, 1, &entry, nullptr)) << "as a device would have it";
}

TEST_F(PresentTest, AnOldDriverIsToldWithWhatItIsFor) {
  ::setenv("WEIR_EMULATED_DRIVER", "12020", 1);
  EXPECT_EQ(
      check_kernels().error(),
      Error(Errc::unsupported, "the NVIDIA driver is for CUDA up to 12.2, and the kernels of this weir for CUDA 13.0"));
  ::setenv("WEIR_EMULATED_DRIVER", "0", 1);
  EXPECT_EQ(check_kernels().error(), Error(Errc::unsupported, "there is no NVIDIA driver"));
}

}  // namespace
}  // namespace weir::cuda
