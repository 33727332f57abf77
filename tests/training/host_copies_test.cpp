#include "training/exchange/host_copies.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "tested_device.hpp"

namespace weir::training {
namespace {

const at::Device gpu = testing::tested_device();

/// Two tensors in a bucket of their own each.
struct Copies {
  std::vector<NamedTensor> tensors{{"a", at::zeros({2, 3}).to(gpu)}, {"b", at::zeros({4}).to(gpu)}};
  std::vector<Bucket> buckets{{.parameters = {0}}, {.parameters = {1}}};
  HostCopies copies{tensors, buckets};
};

Mean dense(const at::Tensor& values) { return {.tensor = values, .sparse = false, .positions = {}}; }

TEST(HostCopies, BringsDownWhatTheDeviceComputedBefore) {
  Copies of;
  const at::Tensor value = at::full({2, 3}, 3.0F).to(gpu).mul(2);
  of.copies.hold_back(0);
  const at::Tensor copy = of.copies.fetch(0, value);
  EXPECT_TRUE(copy.is_cpu());
  of.copies.wait(0);
  EXPECT_TRUE(copy.equal(at::full({2, 3}, 6.0F)));
}

TEST(HostCopies, TheHostHasNothingBeforeItHasWaited) {
  if (!testing::is_emulated()) GTEST_SKIP() << "a real device may have copied already";
  Copies of;
  const at::Tensor value = at::ones({4}).to(gpu);
  of.copies.hold_back(1);
  const at::Tensor copy = of.copies.fetch(1, value);
  copy.fill_(-1);
  EXPECT_TRUE(copy.equal(at::full({4}, -1.0F))) << "the emulated device copies too early to show anything";
  of.copies.wait(0);
  EXPECT_TRUE(copy.equal(at::full({4}, -1.0F))) << "one bucket waits for another";
  of.copies.wait(1);
  EXPECT_TRUE(copy.equal(at::ones({4})));
}

TEST(HostCopies, MeansAreThereBeforeTheHostsMayChange) {
  Copies of;
  at::Tensor mean = at::full({4}, 5.0F);
  of.copies.put(1, dense(mean));
  of.copies.hold_back(1);
  of.copies.fetch(1, at::ones({4}).to(gpu));
  of.copies.wait(1);
  mean.fill_(7);  // as the decoder does in the next step
  EXPECT_TRUE(of.copies.means()[1].tensor.cpu().equal(at::full({4}, 5.0F)));
}

TEST(HostCopies, SparseMeansReplaceOneAnother) {
  Copies of;
  const auto put = [&](std::vector<float> values, std::vector<std::uint32_t> positions) {
    of.copies.put(0, {.tensor = at::tensor(values).view({2, 3}), .sparse = true, .positions = std::move(positions)});
    const Mean& mean = of.copies.means()[0];
    EXPECT_FALSE(mean.sparse);
    return mean.tensor.cpu().view({-1});
  };
  of.copies.put(0, dense(at::full({2, 3}, 9.0F)));
  EXPECT_TRUE(put({0, 1, 0, 0, 2, 0}, {1, 4}).equal(at::tensor({0.0F, 1.0F, 0.0F, 0.0F, 2.0F, 0.0F})));
  EXPECT_TRUE(put({3, 0, 0, 0, 4, 0}, {0, 4, 0}).equal(at::tensor({3.0F, 0.0F, 0.0F, 0.0F, 4.0F, 0.0F})));
  EXPECT_TRUE(put({0, 0, 0, 0, 0, 0}, {}).equal(at::zeros({6})));
}

TEST(HostCopies, ASparseMeanReplacesOneThatWasMadeThere) {
  Copies of;
  Mean& there = of.copies.means()[0];
  there.tensor.fill_(3);
  of.copies.leave(0);
  of.copies.put(0, {.tensor = at::tensor({0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F}), .sparse = true, .positions = {1}});
  EXPECT_TRUE(there.tensor.cpu().view({-1}).equal(at::tensor({0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F})));
  there.tensor.fill_(3);  // one that has no positions
  of.copies.leave(0);
  of.copies.put(0, {.tensor = at::tensor({0.0F, 0.0F, 2.0F, 0.0F, 0.0F, 0.0F}), .sparse = true, .positions = {2}});
  EXPECT_TRUE(there.tensor.cpu().view({-1}).equal(at::tensor({0.0F, 0.0F, 2.0F, 0.0F, 0.0F, 0.0F})));
}

}  // namespace
}  // namespace weir::training
