// In which order the emulated device has to work for an exchange of more buckets than there are streams.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranks.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "tests/training/paused_loop.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu(at::DeviceType::PrivateUse1, 0);
constexpr std::uint32_t buckets = 40;

/// How far the encoder had come.
struct Course {
  std::atomic<std::uint32_t> begun = 0;  ///< buckets that it has begun to encode
  /// The same when the device came to the gradient of each bucket, which it does not before somebody waits for it.
  std::vector<std::uint32_t> begun_before = std::vector<std::uint32_t>(buckets);
};

/// Counts tensors, of which each bucket has one.
class Watch final : public compressors::Memory {
 public:
  Watch(std::shared_ptr<Course> course, bool codes_there) : course_(std::move(course)), codes_there_(codes_there) {}
  std::string_view name() const override { return "watch"; }
  compressors::MemoryTraits traits() const override { return {}; }
  bool codes_on(at::Device device) const override { return codes_there_ || device.is_cpu(); }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const compressors::Round&) override {
    ++course_->begun;
    return gradient;
  }
  Result<void> update(const compressors::Round&, const compressors::Sent&, at::Tensor&) override { return {}; }

 private:
  const std::shared_ptr<Course> course_;
  const bool codes_there_;
};

compressors::Compression make_compression(std::shared_ptr<Course> course, bool codes_there) {
  const nlohmann::json none;
  auto made = compressors::builtin()
                  .make({.compressor = "bf16",
                         .params = none,
                         .memory = {},
                         .memory_params = none,
                         .setting = {.momentum = 0, .nesterov = false}})
                  .value();
  return {std::move(made.compressor), std::make_unique<Watch>(std::move(course), codes_there)};
}

/// Whether gradients are encoded where they are; else they come down first.
class MoreBucketsThanStreams : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(All, MoreBucketsThanStreams, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "coded_there" : "coded_on_the_host");
});

/// The host has handed over all buckets before the encoder begins with the first.
TEST_P(MoreBucketsThanStreams, AreEncodedWithoutTheGradientsOfLaterOnes) {
  std::vector<NamedTensor> tensors;
  std::vector<at::Tensor> values;
  for (std::uint32_t t = 0; t < buckets; ++t) {
    tensors.push_back({"tensor" + std::to_string(t), at::zeros({64, 64}, at::TensorOptions(at::kFloat).device(gpu))});
    values.push_back(at::full({64, 64}, static_cast<float>(t)));
  }
  const auto course = std::make_shared<Course>();
  auto group = collectives::in_process_group(1);
  Exchange exchange(tensors, make_compression(course, GetParam()), *group[0],
                    {.bucket_sizes = {.first_bytes = 1024, .bytes = 1024}, .topology = {.name = "ring"}});
  {
    const Pause nothing_is_encoded(group[0]->thread());
    exchange.begin({.number = 0});
    for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
      const std::uint32_t t = buckets - 1 - bucket;
      emulator::enqueue(nullptr, [course, bucket] {
        course->begun_before[bucket] = course->begun;
        return true;
      });
      exchange.give(t, values[t].to(gpu, /*non_blocking=*/true));
    }
    EXPECT_EQ(course->begun.load(), 0U);
  }
  const auto done = exchange.finish();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(course->begun.load(), buckets);
  for (std::uint32_t t = 0; t < buckets; ++t) {
    EXPECT_TRUE(exchange.means()[t].tensor.to(at::kCPU).equal(values[t])) << tensors[t].name;
  }
  for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
    EXPECT_GE(course->begun_before[bucket], bucket) << "an earlier bucket has waited for the gradient of this one";
  }
  group[0]->close();
}

}  // namespace
}  // namespace weir::training::testing
