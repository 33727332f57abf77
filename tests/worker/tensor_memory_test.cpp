#include "worker/tensor_memory.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace weir::worker {
namespace {

constexpr std::size_t mebibyte = 1 << 20;

TEST(TensorMemory, IsTakenAgainByTheNextOfTheSameSize) {
  const TensorMemory& memory = TensorMemory::of_process();
  const std::size_t kept_before = memory.kept_bytes();
  void* first = nullptr;
  {
    const auto tensor = memory.allocate(5 * mebibyte + 4);
    first = tensor.get();
    std::memset(tensor.get(), 1, 5 * mebibyte + 4);
  }
  EXPECT_GE(memory.kept_bytes(), kept_before + 5 * mebibyte + 4);
  const auto other = memory.allocate(3 * mebibyte);
  EXPECT_NE(other.get(), first);
  const auto again = memory.allocate(5 * mebibyte + 4);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(memory.kept_bytes(), kept_before);
}

TEST(TensorMemory, OfTensorsInUseIsNeverGivenOutTwice) {
  const TensorMemory& memory = TensorMemory::of_process();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int round = 0; round < 50; ++round) {
        const auto first = memory.allocate(mebibyte + static_cast<std::size_t>(round % 3) * mebibyte);
        const auto second = memory.allocate(2 * mebibyte);
        std::memset(first.get(), t, mebibyte);
        std::memset(second.get(), 100 + t, mebibyte);
        EXPECT_EQ(static_cast<const char*>(first.get())[mebibyte - 1], t);
        EXPECT_EQ(static_cast<const char*>(second.get())[0], 100 + t);
      }
    });
  }
}

TEST(TensorMemory, IsKeptOnlyAsMuchAsWasInUseAndAQuarter) {
  const TensorMemory& memory = TensorMemory::of_process();
  for (std::size_t size = mebibyte; size <= 64 * mebibyte; size *= 2) {
    {
      const auto tensor = memory.allocate(size);
    }
    const std::size_t most = memory.most_used_bytes();
    EXPECT_LE(memory.kept_bytes(), most + most / 4) << "after one of " << size;
  }
  EXPECT_GT(memory.kept_bytes(), 0);
}

TEST(TensorMemory, OfSmallTensorsIsNotKept) {
  const TensorMemory& memory = TensorMemory::of_process();
  const std::size_t kept_before = memory.kept_bytes();
  { const auto tensor = memory.allocate(1000); }
  { const auto nothing = memory.allocate(0); }
  EXPECT_EQ(memory.kept_bytes(), kept_before);
}

// As oneDNN does.
TEST(TensorMemory, IsGivenBackByItsAddress) {
  TensorMemory& memory = TensorMemory::of_process();
  for (const std::size_t size : {std::size_t{100}, 7 * mebibyte}) {
    void* const begin = memory.raw_allocate(size);
    std::memset(begin, 1, size);
    memory.raw_deallocate(begin);
  }
  void* const kept = memory.raw_allocate(7 * mebibyte);
  memory.raw_deallocate(kept);
  EXPECT_EQ(memory.allocate(7 * mebibyte).get(), kept);
}

TEST(TensorMemory, ServesTheTensorsOfLibTorch) {
  TensorMemory::install();
  const std::size_t kept_before = TensorMemory::of_process().kept_bytes();
  {
    const at::Tensor images = at::ones({64, 16, 32, 32});
    const at::Tensor weights = at::ones({16, 16, 3, 3});
    EXPECT_EQ(at::conv2d(images, weights, {}, 1, 1).max().item<float>(), 144);
  }
  EXPECT_GE(TensorMemory::of_process().kept_bytes(), kept_before + 4 * mebibyte);
}

}  // namespace
}  // namespace weir::worker
