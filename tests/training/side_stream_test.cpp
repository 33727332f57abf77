#include "training/side_stream.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tested_device.hpp"

namespace weir::training {
namespace {

const at::Device gpu = testing::tested_device();

c10::Stream current_stream() { return streams_of(gpu).getStream(gpu); }

TEST(InSideStream, WorkIsAfterWhatWasBeforeItAndBeforeWhatComesNext) {
  SideStream side(stream_for_coding(gpu));
  const c10::Stream before = current_stream();
  const at::Tensor value = at::zeros({1000}).to(gpu);
  const at::Tensor twos = at::full({1000}, 2.0F, host_memory_for(gpu));
  const at::Tensor copy = at::zeros({1000}, host_memory_for(gpu));
  value.copy_(twos, /*non_blocking=*/true);
  {
    const InSideStream beside(&side);
    EXPECT_EQ(current_stream(), side.stream());
    copy.copy_(value, /*non_blocking=*/true);
  }
  EXPECT_EQ(current_stream(), before);
  before.synchronize();
  EXPECT_TRUE(copy.equal(twos));
}

TEST(InSideStream, WithoutOneWorkStaysWhereItIs) {
  const c10::Stream before = current_stream();
  const InSideStream nowhere(nullptr);
  EXPECT_EQ(current_stream(), before);
}

}  // namespace
}  // namespace weir::training
