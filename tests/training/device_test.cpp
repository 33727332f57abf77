// Training on a device: an emulated one, which computes with the processor's operations, so that everything has to come
// to the processor's bits.

#include "training/device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "mode_runs.hpp"
#include "served_job.hpp"
#include "training/replica.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu(at::DeviceType::PrivateUse1, 0);

struct Case {
  std::string name;
  protocol::JobSpec spec;
  /// Not for products of tensors that are parts of others: how these lie in memory decides how they are added up.
  bool to_the_bit = true;
};

Case of_compressor(const std::string& name, const std::string& topology = "ring", nlohmann::json params = {}) {
  auto spec = small_job(name);
  if (!params.is_null()) spec.compression.compressor.params = std::move(params);
  spec.exchange.topology = topology;
  return {name + "_" + topology, spec};
}

Case of_mode(const std::string& mode, nlohmann::json params, const std::string& compressor) {
  auto spec = small_job(compressor);
  spec.training.mode = {mode, std::move(params)};
  if (mode == "diloco" && compressor != "none") spec.compression.memory = {"residual", {}};
  return {mode + "_" + compressor, spec};
}

Case of_optimizer(const std::string& name, nlohmann::json params, protocol::JobSpec::Clip clip = {}) {
  auto spec = small_job("none");
  spec.training.optimizer = {name, std::move(params)};
  spec.training.clip = clip;
  return {name + (clip.norm ? "_clipped" : ""), spec};
}

Case of_text() {
  auto spec = small_job("none");
  spec.model = {"gpt", {{"layers", 1}, {"heads", 2}, {"width", 16}}};
  spec.dataset.choice = {"synthetic-text", {{"vocabulary", 16}, {"train_examples", 64}, {"test_examples", 8}}};
  spec.training.batch_size = 4;
  return {"gpt", spec, false};
}

std::vector<Case> cases() {
  std::vector<Case> list{
      of_compressor("none", "ring", nlohmann::json::object()),
      of_compressor("none", "hierarchical", nlohmann::json::object()),
      of_compressor("dgc"),
      of_compressor("dgc", "split_gather"),
      of_compressor("topk", "parameter_server"),
      of_compressor("topk", "hierarchical"),
      of_compressor("qsgd", "two_hop", nlohmann::json::object()),
      of_compressor("powersgd", "tree", nlohmann::json::object()),
      of_compressor("terngrad", "ring", nlohmann::json::object()),
      of_mode("local_sgd", {{"period", 4}}, "none"),
      of_mode("local_sgd", {{"period", 4}}, "topk"),
      of_mode("diloco", {{"period", 8}, {"fragments", 2}, {"delay", 2}}, "none"),
      of_mode("diloco", {{"period", 8}}, "topk"),
      of_mode("gossip", nlohmann::json::object(), "none"),
      of_mode("gossip", nlohmann::json::object(), "topk"),
      of_optimizer("sgd", {{"lr", 0.05}, {"momentum", 0.9}, {"nesterov", true}}, {.norm = 0.1, .value = {}}),
      of_optimizer("adam", {{"lr", 0.01}, {"weight_decay", 0.01}}),
      of_optimizer("adamw", {{"lr", 0.01}}),
      of_optimizer("lamb", {{"lr", 0.01}}),
      {"batch_norm", with_batch_norm(small_job("none"))},
      {"accumulating", accumulating(small_job("dgc"), 2)},
      of_text(),
  };
  auto models = with_batch_norm(small_job("none"));
  models.compression.apply_to = "models";
  list.push_back({"models", models});
  auto weighted = small_job("none");
  weighted.compression.aggregation = "weighted";
  list.push_back({"weighted", weighted});
  auto sum = small_job("none");
  sum.compression.aggregation = "sum";
  sum.training.optimizer.params["lr"] = 0.01;
  list.push_back({"sum", sum});
  return list;
}

class OnADevice : public ::testing::TestWithParam<Case> {};

void expect_same(const Outcome& one, const Outcome& other) {
  ASSERT_EQ(one.watchers.size(), other.watchers.size());
  for (std::size_t rank = 0; rank < one.watchers.size(); ++rank) {
    ASSERT_TRUE(one.results[rank]) << one.results[rank].error().message();
    ASSERT_TRUE(other.results[rank]) << other.results[rank].error().message();
    EXPECT_TRUE(same(one.watchers[rank].models.back(), other.watchers[rank].models.back())) << "rank " << rank;
    EXPECT_TRUE(same(one.watchers[rank].buffers.back(), other.watchers[rank].buffers.back())) << "rank " << rank;
    EXPECT_TRUE(std::ranges::equal(one.shares[rank].bytes(), other.shares[rank].bytes()))
        << "the checkpoint of rank " << rank;
  }
}

TEST_P(OnADevice, TrainsToTheProcessorsBits) {
  const auto& spec = GetParam().spec;
  const auto there = train(spec, 2, {.devices = {gpu, gpu}});
  const auto here = train(spec, 2);
  const auto& models = there.watchers[0].models;
  if (GetParam().to_the_bit) {
    expect_same(there, here);
  } else {
    ASSERT_TRUE(there.results[0]) << there.results[0].error().message();
    EXPECT_TRUE(same(models.back(), there.watchers[1].models.back())) << "the ranks differ";
    for (std::size_t i = 0; i < models.back().size(); ++i) {
      EXPECT_TRUE(models.back()[i].allclose(here.watchers[0].models.back()[i], 1e-3, 1e-4)) << "parameter " << i;
    }
  }
  EXPECT_FALSE(same(models.front(), models.back())) << "nothing was trained";
}

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

INSTANTIATE_TEST_SUITE_P(All, OnADevice, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Device, RanksOnADeviceAndOnTheProcessorTrainTogether) {
  const auto spec = small_job("dgc");
  expect_same(train(spec, 3, {.devices = {at::kCPU, gpu, gpu}}), train(spec, 3));
}

TEST(Device, ATrainingGoesOnOnTheOther) {
  const auto spec = small_job("dgc");
  const auto whole = train(spec, 2);
  for (const auto& [first, then] : {std::pair(at::Device(at::kCPU), gpu), std::pair(gpu, at::Device(at::kCPU))}) {
    const auto stopped = train(spec, 2, {.stop_after = 11, .devices = {first, first}});
    expect_same(train(spec, 2, {.checkpoint = stopped.checkpoint(), .devices = {then, then}}), whole);
  }
}

TEST(Device, PushesToServers) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto spec = served_job("async", {{"servers", 2}}, compressor);
    const auto model = [&](at::Device device) {
      ServedJob job(spec, 1);
      job.device = device;
      job.run();
      return job.first_server().models.rbegin()->second;
    };
    EXPECT_TRUE(std::ranges::equal(model(gpu).bytes(), model(at::kCPU).bytes())) << compressor;
  }
}

class Variable {
 public:
  /// Null: unset.
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

/// With which a node says what it has given to a worker.
constexpr const char* visible_gpus = "CUDA_VISIBLE_DEVICES";
constexpr const char* device_bytes = "WEIR_EMULATED_GPU_BYTES";

TEST(Device, OneThatIsTooSmallForTheModelSaysWhatItHadToTake) {
  auto spec = small_job("none");
  spec.model.params = {{"hidden", 1024}};
  const Variable limit(device_bytes, "65536");
  const auto made = Replica::make(spec, 0, 1, 0, gpu);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::exhausted);
  EXPECT_EQ(made.error().context,
            "privateuseone:0 does not take the 282640 bytes of the model's parameters: out of memory: tried to "
            "allocate 262144 bytes");
}

TEST(Device, OneThatIsTooSmallForABatchEndsTheTrainingWithASentence) {
  auto spec = small_job("none");
  spec.training.batch_size = 256;
  const Variable limit(device_bytes, "70000");
  const auto outcome = train(spec, 1, {.devices = {gpu}});
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_EQ(outcome.results[0].error().code, Errc::exhausted);
  const std::string message = outcome.results[0].error().message();
  EXPECT_NE(message.find("privateuseone:0 has too little memory for 256 examples at a time: "), std::string::npos)
      << message;
  EXPECT_NE(message.find("a smaller training.batch_size needs less"), std::string::npos) << message;
}

TEST(Device, IsTheGpuThatAJobHasBooked) {
  const Variable visible(visible_gpus, "GPU-1");
  EXPECT_EQ(device_for({{"cpu", 1}, {"gpu", 0.5}}).value(), gpu);
  EXPECT_EQ(device_for({{"cpu", 1}}).value(), at::Device(at::kCPU));
  EXPECT_EQ(device_for({{"gpu", 0}}).value(), at::Device(at::kCPU));
}

TEST(Device, IsTheProcessorWhereTheNodeHasNoGpuToGive) {
  const Variable none(visible_gpus, "");
  EXPECT_EQ(device_for({{"gpu", 1}}).value(), at::Device(at::kCPU));
  const Variable unset(visible_gpus, nullptr);
  EXPECT_EQ(device_for({{"gpu", 1}}).value(), at::Device(at::kCPU));
}

}  // namespace
}  // namespace weir::training::testing
