#include "training/datasets/batch_copies.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tested_device.hpp"
#include "training/datasets/loader.hpp"

namespace weir::training {
namespace {

const at::Device gpu = testing::tested_device();

Batch batch_of(float value, std::int64_t count = 4) {
  return {at::full({count, 3}, value), at::full({count}, static_cast<std::int64_t>(value), at::kLong)};
}

bool is_batch_of(const Batch& batch, float value) {
  const Batch expected = batch_of(value, batch.target.size(0));
  return batch.input.cpu().equal(expected.input) && batch.target.cpu().equal(expected.target);
}

TEST(BatchCopies, AreThereForWhatIsComputedNext) {
  BatchCopies copies(gpu);
  for (int i = 1; i <= 5; ++i) {
    copies.hold_back();
    const Batch there = copies.begin(batch_of(static_cast<float>(i)));
    EXPECT_EQ(there.input.device(), gpu);
    EXPECT_EQ(there.target.device(), gpu);
    EXPECT_EQ(there.target.scalar_type(), at::kLong);
    copies.join();
    EXPECT_TRUE(is_batch_of(there, static_cast<float>(i)));
  }
}

TEST(BatchCopies, LeaveTheOneBeforeAsItIs) {
  BatchCopies copies(gpu);
  const Batch first = copies.begin(batch_of(1));
  copies.join();
  copies.hold_back();
  const Batch second = copies.begin(batch_of(2));
  copies.join();
  EXPECT_TRUE(is_batch_of(first, 1));
  EXPECT_TRUE(is_batch_of(second, 2));
}

TEST(BatchCopies, UseTheMemoryOfTheOneBeforeTheLast) {
  BatchCopies copies(gpu);
  const auto copy = [&](float value, std::int64_t count) {
    copies.hold_back();
    Batch there = copies.begin(batch_of(value, count));
    copies.join();
    return there;
  };
  const Batch first = copy(1, 4);
  copy(2, 4);
  const Batch third = copy(3, 4);
  EXPECT_EQ(third.input.data_ptr(), first.input.data_ptr());
  copy(4, 4);
  EXPECT_TRUE(is_batch_of(copy(5, 2), 5)) << "a smaller one has memory of its own";
}

/// Examples whose values are their positions.
class Positions final : public Examples {
 public:
  std::span<const std::uint16_t> classes() const override { return {}; }
  std::uint64_t hash() const override { return 0; }
  Batch make(std::span<const std::uint32_t> wanted, const Pass* /*pass*/, const Batch& memory) const override {
    const auto count = static_cast<std::int64_t>(wanted.size());
    Batch batch{room_in(memory.input, {count}, at::kFloat), room_in(memory.target, {count}, at::kLong)};
    for (std::int64_t i = 0; i < count; ++i) {
      batch.input[i] = static_cast<float>(wanted[static_cast<std::size_t>(i)]);
      batch.target[i] = static_cast<std::int64_t>(wanted[static_cast<std::size_t>(i)]);
    }
    return batch;
  }
};

TEST(Loader, BringsItsBatchesToTheDevice) {
  const Positions examples;
  Loader loader(examples, gpu);
  at::Tensor sum = at::zeros({8}).to(gpu);
  std::vector<std::uint32_t> wanted(8);
  std::iota(wanted.begin(), wanted.end(), 0);
  loader.ask(wanted, {});
  for (int i = 0; i < 6; ++i) {
    const Batch batch = loader.take();
    for (auto& position : wanted) position += 8;
    loader.ask(wanted, {});
    EXPECT_EQ(batch.input.device(), gpu);
    sum.add_(batch.input).add_(batch.target);
  }
  // Twice the positions p, p + 8, ..., p + 40.
  EXPECT_TRUE(sum.cpu().equal(at::arange(8, at::kFloat).mul(12).add(240)));
}

}  // namespace
}  // namespace weir::training
