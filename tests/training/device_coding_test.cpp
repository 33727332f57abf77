// An exchange of tensors that lie on a device, where what the compressor chooses is chosen: with the processor's bits,
// without copying gradients to the host, and with the order of streams that this needs. On the emulated device, which
// does no work before somebody needs it.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "ranks.hpp"
#include "tests/compressors/tensors.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "training/device.hpp"
#include "training/exchange/coding_probe.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu(at::DeviceType::PrivateUse1, 0);
constexpr std::uint32_t ranks = 3;  ///< a share of each that is no power of two, so that a bit tells of each rounding
constexpr std::uint64_t steps = 4;

struct Case {
  std::string compressor;
  std::string topology;
  nlohmann::json params = {{"ratio", 0.01}};
  // Of the gradients' bytes: what is dense, and what is sent by this rank and by all.
  double down_max = 0.2;
  double up_max = 0.2;
  std::string memory = {};  ///< none: the compressor's default

  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.compressor << " over " << of.topology; }
};

compressors::Compression make_compression(const Case& of) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = of.compressor,
             .params = of.params,
             .memory = of.memory,
             .memory_params = none,
             .setting = {.momentum = 0.9, .nesterov = false}})
      .value();
}

/// Of one rank.
struct Outcome {
  std::vector<at::Tensor> means;  ///< step by step
  std::vector<at::Tensor> kept;   ///< by the memory, after each step
  std::uint64_t waits = 0;        ///< of the compute thread for the device, in all steps
};

const std::vector<std::vector<std::int64_t>> shapes{{150, 200}, {300}, {60, 100}, {1, 7}};
constexpr std::uint64_t gradient_bytes = ranks * steps * 4 * (150 * 200 + 300 + 60 * 100 + 7);
/// Of the values that come up to the device before they are given: the last tensor has none.
constexpr std::uint64_t given_bytes = gradient_bytes - ranks * steps * 4 * 7;

/// A few steps of some tensors, of which the last is not given. Their values come up to the device as late as it may do
/// that.
std::vector<Outcome> run(const Case& of, at::Device device) {
  auto group = of.topology == "hierarchical" ? collectives::in_process_group(ranks, 3, {.ranks_per_host = ranks})
                                             : collectives::in_process_group(ranks);
  std::vector<Outcome> outcomes(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    std::vector<NamedTensor> tensors;
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      tensors.push_back(
          {"tensor" + std::to_string(t), at::zeros(shapes[t], at::TensorOptions(at::kFloat).device(device))});
    }
    Exchange exchange(
        tensors, make_compression(of), *group[rank],
        {.seed = 3, .bucket_sizes = {.first_bytes = 1024, .bytes = 50'000}, .topology = {.name = of.topology}});
    Outcome& outcome = outcomes[rank];
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::vector<at::Tensor> values;
      for (std::size_t t = 0; t + 1 < shapes.size(); ++t) {
        const auto seed = 100 * step + 10 * rank + t;
        values.push_back(compressors::test::heavy_tailed(c10::multiply_integers(shapes[t]), seed).view(shapes[t]));
      }
      const auto before = emulator::waits_of_this_thread();
      exchange.begin({.number = step, .epoch = 100.0 + static_cast<double>(step)});
      for (std::size_t t = values.size(); t-- > 0;) {
        exchange.give(static_cast<std::uint32_t>(t), values[t].to(device, /*non_blocking=*/true));
      }
      const auto done = exchange.finish();
      ASSERT_TRUE(done) << done.error().message();
      outcome.waits += emulator::waits_of_this_thread() - before;
      for (const Mean& mean : exchange.means()) outcome.means.push_back(mean.tensor.clone());
      for (const auto& [name, tensor] : exchange.compression().memory->save()) outcome.kept.push_back(tensor.clone());
    }
    group[rank]->close();
  });
  return outcomes;
}

void expect_same(const std::vector<at::Tensor>& there, const std::vector<at::Tensor>& here, const std::string& what) {
  ASSERT_EQ(there.size(), here.size()) << what;
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_TRUE(compressors::test::same_bits(there[i].to(at::kCPU), here[i])) << what << " " << i;
  }
}

void expect_same(const std::vector<Outcome>& there, const std::vector<Outcome>& here) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    expect_same(there[rank].means, here[rank].means, "mean");
    expect_same(there[rank].kept, here[rank].kept, "what is kept");
    EXPECT_EQ(there[rank].waits, 0U) << "for the device, of the thread that computes";
  }
}

class CodedOnTheDevice : public ::testing::TestWithParam<Case> {};

TEST_P(CodedOnTheDevice, GradientsStayThere) {
  const auto down_before = emulator::bytes_to_host();
  const auto up_before = emulator::bytes_to_device();
  const auto there = run(GetParam(), gpu);
  const auto down = static_cast<double>(emulator::bytes_to_host() - down_before);
  const auto up = static_cast<double>(emulator::bytes_to_device() - up_before) - given_bytes;
  EXPECT_LT(down, GetParam().down_max * gradient_bytes);
  EXPECT_LT(up, GetParam().up_max * gradient_bytes);
  expect_same(there, run(GetParam(), at::kCPU));
}

INSTANTIATE_TEST_SUITE_P(
    All, CodedOnTheDevice,
    ::testing::Values(Case{"dgc", "ring"}, Case{"dgc", "split_gather"}, Case{"dgc", "two_hop", {{"ratio", 0.01}}, 0.25},
                      Case{"topk", "ring"}, Case{"topk", "parameter_server"}, Case{"topk", "split_gather"},
                      Case{"int8", "ring", {}, 0.3, 0.8}, Case{"int8", "two_hop", {}, 0.3, 0.3},
                      Case{"bf16", "ring", {}, 0.55, 0.55}, Case{"terngrad", "ring", {}}, Case{"signum", "ring", {}},
                      Case{"chunk", "ring", {{"ratio", 0.05}}, 0.2, 0.3}, Case{"onebit", "ring", {}},
                      Case{"onebit", "parameter_server", {}}, Case{"efsignsgd", "ring", {}},
                      Case{"qsgd", "ring", {}, 0.2, 0.5}, Case{"natural", "ring", {}, 0.3, 1.05, "residual"},
                      Case{"topk", "ring", {{"ratio", 0.01}}, 0.2, 0.2, "ef21"},
                      Case{"powersgd", "ring", {{"start_step", 0}}},
                      Case{"powersgd", "ring", {{"start_step", 0}}, 0.2, 0.2, "residual"}, Case{"sketchml", "two_hop"},
                      Case{"atomo", "ring", {{"atoms", "entrywise"}}}, Case{"atomo", "ring", {{"atoms", "dct"}}},
                      Case{"demo", "ring", {}, 0.2, 0.3}, Case{"casq", "ring", {}, 0.35, 0.3}));

class CodedOnTheHost : public ::testing::TestWithParam<Case> {};

/// Which shows that a gradient that does cross is seen.
TEST_P(CodedOnTheHost, GradientsCross) {
  const auto before = emulator::bytes_to_host();
  const auto there = run(GetParam(), gpu);
  EXPECT_GE(emulator::bytes_to_host() - before, gradient_bytes - ranks * steps * sizeof(float) * 7);
  expect_same(there, run(GetParam(), at::kCPU));
}

INSTANTIATE_TEST_SUITE_P(All, CodedOnTheHost,
                         ::testing::Values(Case{"none", "ring", {}}, Case{"topk", "hierarchical"},
                                           Case{"dgc", "ring", {{"ratio", 1.0}}}));

/// In which a compressor's rounds go dense at first, and then are coded where gradients lie.
TEST(CodedOnTheDevice, AfterADenseWarmUp) {
  const Case of{"dgc", "ring", {{"ratio", 0.01}, {"warmup_epochs", 102}}};
  expect_same(run(of, gpu), run(of, at::kCPU));
}

/// A coded tensor's round goes on once the mean of a plain one is there.
class AfterPlain final : public compressors::Memory {
 public:
  explicit AfterPlain(std::uint32_t plain) : plain_(plain) {}
  std::string_view name() const override { return "after_plain"; }
  compressors::MemoryTraits traits() const override { return {}; }
  bool codes_on(at::Device) const override { return true; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const compressors::Round&) override {
    if (mean_is_there_.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready) return gradient;
    return Error{Errc::deadline_exceeded, "no mean of the plain tensor"};
  }
  Result<void> update(const compressors::Round&, const compressors::Sent&, at::Tensor&) override { return {}; }
  Result<void> average_dense(at::Tensor&, const compressors::Round& round) override {
    if (round.tensor == plain_) mean_is_there_.set_value();
    return {};
  }

 private:
  const std::uint32_t plain_;
  std::promise<void> mean_is_there_;
};

/// The encoder goes on while the gradients of a plain bucket, which are the last ones, are computed. Else whatever
/// waits for one of the two buckets holds up the other.
TEST(CodedOnTheDevice, APlainBucketIsGatheredBesideTheCoding) {
  auto group = collectives::in_process_group(1);
  const auto on_gpu = at::TensorOptions(at::kFloat).device(gpu);
  const std::vector<NamedTensor> tensors{{"plain", at::ones({300}, on_gpu)}, {"coded", at::ones({150, 200}, on_gpu)}};
  auto compressor = std::move(make_compression({"topk", "ring"}).compressor);
  Exchange exchange(tensors, {std::move(compressor), std::make_unique<AfterPlain>(0)}, *group[0], {});
  exchange.begin({.number = 0});
  for (const std::uint32_t t : {1U, 0U}) exchange.give(t, tensors[t].tensor);
  const auto done = exchange.finish();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_TRUE(at::equal(exchange.means()[0].tensor.to(at::kCPU), at::ones({300})));
  group[0]->close();
}

/// What the ranks plan with is measured where it will be done.
TEST(CodingProbe, EncodesOnTheDeviceWhatIsEncodedThereInAStep) {
  const auto measure = [](const std::string& compressor, at::Device device) {
    auto compression = make_compression({compressor, "ring", {}});
    const std::vector<NamedTensor> tensors{{"a", at::zeros({200, 300}, at::TensorOptions(at::kFloat).device(device))}};
    return measure_coding(compression, tensors, {.seed = 5, .step = 20, .epoch = 100, .world = 2}).value().front();
  };
  constexpr std::uint64_t tensor_bytes = 4 * 200 * 300;
  for (const char* compressor : {"dgc", "int8", "powersgd", "demo"}) {
    SCOPED_TRACE(compressor);
    const auto up_before = emulator::bytes_to_device();
    const auto down_before = emulator::bytes_to_host();
    const BucketLoad there = measure(compressor, gpu);
    EXPECT_GE(emulator::bytes_to_device() - up_before, tensor_bytes) << "it lies on the host";
    EXPECT_LT(emulator::bytes_to_host() - down_before, tensor_bytes);
    const BucketLoad here = measure(compressor, at::kCPU);
    ASSERT_EQ(there.by_all.passes.size(), here.by_all.passes.size());
    for (std::size_t pass = 0; pass < here.by_all.passes.size(); ++pass) {
      EXPECT_EQ(there.by_all.passes[pass].bytes, here.by_all.passes[pass].bytes);
    }
    EXPECT_GT(there.by_all.encode_seconds, 0);
    EXPECT_GT(there.by_all.decode_seconds, 0);
  }
  const auto up_before = emulator::bytes_to_device();
  measure("none", gpu);
  EXPECT_EQ(emulator::bytes_to_device() - up_before, 0U) << "nothing to encode";
}

}  // namespace
}  // namespace weir::training::testing
