#include "training/exchange/host_copies.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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

/// More buckets than there are streams, of one tensor each. The device reads their values from the host's memory, where
/// they are ones, as late as it may do that.
struct ManyCopies {
  static constexpr std::uint32_t count = 40;

  explicit ManyCopies(const Bucket& last) : copies(make_tensors(), make_buckets(last)) {}

  static std::vector<NamedTensor> make_tensors() {
    std::vector<NamedTensor> made;
    for (std::uint32_t t = 0; t < count; ++t) made.push_back({"tensor" + std::to_string(t), at::zeros({4}).to(gpu)});
    return made;
  }
  static std::vector<Bucket> make_buckets(const Bucket& last) {
    std::vector<Bucket> made;
    for (std::uint32_t t = 0; t + 1 < count; ++t) made.push_back({.parameters = {t}, .coded = true});
    made.push_back(last);
    return made;
  }

  /// All of them, as a host does that is ahead of the device.
  void hand_over() {
    for (std::uint32_t t = 0; t < count; ++t) {
      sources.push_back(at::ones({4}, host_memory_for(gpu)));
      const at::Tensor value = sources.back().to(gpu, /*non_blocking=*/true);
      copies.note_values(t);
      fetched.push_back(copies.fetch(t, value));
    }
  }

  bool comes_down(std::uint32_t tensor) {
    copies.wait(tensor);
    return fetched[tensor].equal(at::ones({4}));
  }

  /// Whether the device computes a value, of a bucket that was taken up, only when somebody waits for it: it is then
  /// what the host's memory has at that time.
  bool comes_down_only_now(std::uint32_t tensor) {
    sources[tensor].fill_(2);
    copies.wait(tensor);
    return fetched[tensor].equal(at::full({4}, 2.0F));
  }

  HostCopies copies;
  std::vector<at::Tensor> sources;  ///< in the host's memory
  std::vector<at::Tensor> fetched;
};

Mean dense(const at::Tensor& values) { return {.tensor = values, .sparse = false, .positions = {}}; }

TEST(HostCopies, BringsDownWhatTheDeviceComputedBefore) {
  Copies of;
  const at::Tensor value = at::full({2, 3}, 3.0F).to(gpu).mul(2);
  of.copies.note_values(0);
  const at::Tensor copy = of.copies.fetch(0, value);
  EXPECT_TRUE(copy.is_cpu());
  of.copies.take_up(0);
  of.copies.wait(0);
  EXPECT_TRUE(copy.equal(at::full({2, 3}, 6.0F)));
}

TEST(HostCopies, TheHostHasNothingBeforeItHasWaited) {
  if (!testing::is_emulated()) GTEST_SKIP() << "a real device may have copied already";
  Copies of;
  const at::Tensor value = at::ones({4}).to(gpu);
  of.copies.note_values(1);
  const at::Tensor copy = of.copies.fetch(1, value);
  of.copies.take_up(1);
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
  of.copies.note_values(1);
  of.copies.fetch(1, at::ones({4}).to(gpu));
  of.copies.take_up(1);
  of.copies.wait(1);
  mean.fill_(7);  // as the decoder does in the next step
  EXPECT_TRUE(of.copies.means()[1].tensor.cpu().equal(at::full({4}, 5.0F)));
}

TEST(HostCopies, ABucketWaitsForNoValuesOfLaterOnes) {
  if (!testing::is_emulated()) GTEST_SKIP() << "a real device may have computed already";
  ManyCopies of({.parameters = {ManyCopies::count - 1}, .coded = true});
  of.hand_over();
  of.copies.take_up(0);
  EXPECT_TRUE(of.comes_down(0));
  for (std::uint32_t t = 1; t < ManyCopies::count; ++t) {
    of.copies.take_up(t);
    EXPECT_TRUE(of.comes_down_only_now(t)) << "bucket " << t;
  }
}

TEST(HostCopies, CodedBucketsDoNotWaitForThePlainOneThatWasTakenUpBefore) {
  if (!testing::is_emulated()) GTEST_SKIP() << "a real device may have computed already";
  constexpr std::uint32_t plain = ManyCopies::count - 1;
  ManyCopies of({.parameters = {plain}, .coded = false});
  of.hand_over();
  of.copies.take_up(plain);
  for (std::uint32_t t = 0; t < plain; ++t) {
    of.copies.take_up(t);
    EXPECT_TRUE(of.comes_down(t)) << "bucket " << t;
  }
  EXPECT_TRUE(of.comes_down_only_now(plain));
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
