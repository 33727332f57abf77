// Training on a device: an emulated one, which computes with the processor's operations, so that everything has to come
// to the processor's bits, or a GPU (gpu_training_test), which adds up in another order.

#include "training/device.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "compressors/device/device.hpp"
#include "mode_runs.hpp"
#include "protocol/safetensors.hpp"
#include "served_job.hpp"
#include "tested_device.hpp"
#include "training/replica.hpp"
#include "training/thrown.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu = tested_device();

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
      of_optimizer("lamb", {{"lr", 0.01}, {"no_decay", true}}, {.norm = 0.1, .value = 0.05}),
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

double distance(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  double squares = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    squares += (one[i] - other[i]).to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

class OnADevice : public ::testing::TestWithParam<Case> {};

/// Ends the training as it should, with what the ranks of the other had in common. On a GPU, whose sums are rounded in
/// another way, the models may be apart by a twentieth of the way that training has taken them: more than roundings
/// come to, also where one has a compressor choose another entry, and less than a batch that is missed or a mean that
/// is applied twice.
void expect_same(const Outcome& there, const Outcome& here, bool to_the_bit = true) {
  ASSERT_EQ(there.watchers.size(), here.watchers.size());
  for (std::size_t rank = 0; rank < there.watchers.size(); ++rank) {
    ASSERT_TRUE(there.results[rank]) << there.results[rank].error().message();
    ASSERT_TRUE(here.results[rank]) << here.results[rank].error().message();
    const auto& of_there = there.watchers[rank];
    const auto& of_here = here.watchers[rank];
    if (is_emulated() && to_the_bit) {
      EXPECT_TRUE(same(of_there.models.back(), of_here.models.back())) << "rank " << rank;
      EXPECT_TRUE(same(of_there.buffers.back(), of_here.buffers.back())) << "rank " << rank;
      EXPECT_TRUE(std::ranges::equal(there.shares[rank].bytes(), here.shares[rank].bytes()))
          << "the checkpoint of rank " << rank;
      continue;
    }
    EXPECT_LE(distance(of_there.models.back(), of_here.models.back()),
              0.05 * distance(of_here.models.front(), of_here.models.back()))
        << "rank " << rank;
    if (same(of_here.models.back(), here.watchers[0].models.back())) {
      EXPECT_TRUE(same(of_there.models.back(), there.watchers[0].models.back())) << "rank " << rank << " differs";
    }
  }
}

TEST_P(OnADevice, TrainsAsOnTheProcessor) {
  const auto& spec = GetParam().spec;
  const auto there = train(spec, 2, {.devices = {gpu, gpu}});
  const auto here = train(spec, 2);
  expect_same(there, here, GetParam().to_the_bit);
  const auto& models = there.watchers[0].models;
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

TEST(Device, TrainsInBfloat16) {
  auto spec = with_batch_norm(small_job("dgc"));
  spec.training.precision = protocol::Precision::bfloat16;
  if (is_emulated()) {
    EXPECT_EQ(Replica::make(spec, 0, 2, 0, gpu).error().code, Errc::unsupported);
    return;
  }
  const auto there = train(spec, 2, {.devices = {gpu, gpu}});
  ASSERT_TRUE(there.results[0]) << there.results[0].error().message();
  EXPECT_TRUE(same(there.watchers[0].models.back(), there.watchers[1].models.back()));
  spec.training.precision = protocol::Precision::float32;
  const auto exact = train(spec, 2, {.devices = {gpu, gpu}});
  // The first batch, with the same model: products of 8 bits, and not of 24 or of TF32's 11.
  const double loss = exact.watchers[0].records.front().loss;
  const double off = std::abs(there.watchers[0].records.front().loss - loss);
  EXPECT_GT(off, 1e-5 * loss);
  EXPECT_LT(off, 0.02 * loss);
}

TEST(Device, ALossThatIsNoNumberEndsTheTrainingWithTheSentenceOfTheProcessor) {
  auto spec = small_job("none");
  spec.training.optimizer.params["lr"] = 1e30;
  const auto there = train(spec, 1, {.devices = {gpu}});
  const auto here = train(spec, 1);
  ASSERT_FALSE(there.results[0]);
  ASSERT_FALSE(here.results[0]);
  EXPECT_TRUE(there.results[0].error().context.starts_with("the loss became ")) << there.results[0].error().message();
  if (is_emulated()) {
    EXPECT_EQ(there.results[0].error(), here.results[0].error());
  }
  const auto both = train(spec, 2, {.devices = {gpu, gpu}});
  for (const auto& result : both.results) ASSERT_FALSE(result);
  // The other one may be told of the end of the exchange before it comes to the step.
  const bool is_said = std::ranges::any_of(
      both.results, [](const Result<bool>& result) { return result.error().context.starts_with("the loss became "); });
  EXPECT_TRUE(is_said) << both.results[0].error().message();
}

/// Between the entries of two models in files.
double largest_difference(const Segment& one, const Segment& other) {
  const auto first = protocol::read_safetensors(one).value();
  const auto second = protocol::read_safetensors(other).value();
  double largest = 0;
  for (const auto& tensor : first.tensors) {
    const auto* const twin = second.find(tensor.name);
    if (twin == nullptr || twin->bytes.size() != tensor.bytes.size()) return HUGE_VAL;
    if (tensor.dtype != protocol::Dtype::f32) continue;
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      float a = 0;
      float b = 0;
      std::memcpy(&a, tensor.bytes.data() + at, sizeof a);
      std::memcpy(&b, twin->bytes.data() + at, sizeof b);
      largest = std::max(largest, static_cast<double>(std::abs(a - b)));
    }
  }
  return largest;
}

/// What one worker, who is on that device, and its servers come to.
Segment served_model(const protocol::JobSpec& spec, at::Device device) {
  ServedJob job(spec, 1);
  job.device = device;
  job.run();
  return job.first_server().models.rbegin()->second;
}

TEST(Device, PushesToServers) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto spec = served_job("async", {{"servers", 2}}, compressor);
    const Segment there = served_model(spec, gpu);
    const Segment here = served_model(spec, at::kCPU);
    if (is_emulated()) {
      EXPECT_TRUE(std::ranges::equal(there.bytes(), here.bytes())) << compressor;
    } else {
      EXPECT_LE(largest_difference(there, here), 1e-2) << compressor;
    }
  }
}

TEST(Device, SeveralTensorsComeDownAsTheyAre) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const std::vector<at::Tensor> here{matrix, at::full({}, 7.0F), at::zeros({0, 2}), matrix.t()};
  std::vector<at::Tensor> there;
  for (const at::Tensor& tensor : here) there.push_back(tensor.to(gpu));
  there.back() = there.front().t();
  const auto down = all_on_host(there);
  ASSERT_EQ(down.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_TRUE(down[i].is_cpu() && down[i].is_contiguous() && down[i].equal(here[i])) << i;
  }
  EXPECT_TRUE(all_on_host({}).empty());
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
  if (!is_emulated()) GTEST_SKIP() << "a real device is larger";
  auto spec = small_job("none");
  spec.model.params = {{"hidden", 1024}};
  const Variable limit(device_bytes, "65536");
  const Variable visible(visible_gpus, "GPU-1");
  const auto made = Replica::make(spec, 0, 1, 0, gpu);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::exhausted);
  EXPECT_EQ(made.error().context,
            "GPU GPU-1 of node " + host_name() +
                " has too little memory for the 282640 bytes of the model's parameters: it was asked for 262144 bytes. "
                "Try a GPU with more memory or, where workers share this one, resources.per_worker.gpu 1");
}

TEST(Device, OneThatIsTooSmallForABatchEndsTheTrainingWithASentence) {
  if (!is_emulated()) GTEST_SKIP() << "a real device is larger";
  auto spec = small_job("none");
  spec.training.batch_size = 256;
  const Variable limit(device_bytes, "70000");
  const auto outcome = train(spec, 1, {.devices = {gpu}});
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_EQ(outcome.results[0].error().code, Errc::exhausted);
  const std::string message = outcome.results[0].error().message();
  EXPECT_NE(message.find(" has too little memory for 256 examples at a time: it was asked for "), std::string::npos)
      << message;
  EXPECT_NE(message.find("Try training.batch_size 128, a GPU with more memory or"), std::string::npos) << message;
}

/// The error for what LibTorch says so.
std::string said_of(const OwnGpu& gpu, const std::string& message, const std::string& instead = {}) {
  const c10::OutOfMemoryError thrown(c10::SourceLocation{"allocate", __FILE__, 1}, message);
  return too_little_memory(gpu, "8 examples", thrown, instead).context;
}

TEST(Device, TooLittleMemoryIsToldWithWhatWasWantedAndWhatThereIs) {
  const std::string rest = "a GPU with more memory or, where workers share this one, resources.per_worker.gpu 1";
  EXPECT_EQ(said_of({"GPU GPU-1 (NVIDIA H200) of node alpha", 3ULL << 29, 4ULL << 30},
                    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which "
                    "1.50 GiB is free.\nOf the allocated memory 2 GiB is reserved",
                    "training.batch_size 4"),
            "GPU GPU-1 (NVIDIA H200) of node alpha has too little memory for 8 examples: it was asked for 2.00 GiB, "
            "and 1.50 of its 4.00 GiB are free. Try training.batch_size 4, " +
                rest);
  EXPECT_EQ(said_of({"the GPU of node alpha", {}, 4ULL << 30}, "Tried to allocate 20.00 MiB (GPU 0; 4 GiB capacity)"),
            "the GPU of node alpha has too little memory for 8 examples: it was asked for 20.00 MiB, and has 4.00 GiB. "
            "Try " +
                rest);
  EXPECT_EQ(said_of({"the GPU of node alpha"}, "CUDA error: out of memory"),
            "the GPU of node alpha has too little memory for 8 examples: CUDA error: out of memory. Try " + rest);
}

TEST(Device, WithoutKernelsForItWhatItComputesIsCompressedOnTheProcessor) {
  if (!is_emulated()) GTEST_SKIP() << "a real device has its kernels";
  EXPECT_TRUE(compressors::device::has_kernels(gpu));
  const Variable old("WEIR_EMULATED_GPU_CAPABILITY", "75");
  EXPECT_FALSE(compressors::device::has_kernels(gpu));
  for (const char* compressor : {"none", "dgc"}) {
    const auto spec = small_job(compressor);
    expect_same(train(spec, 2, {.devices = {gpu, gpu}}), train(spec, 2));
  }
  auto spec = small_job("topk");
  spec.training.mode = {"gossip", nlohmann::json::object()};
  expect_same(train(spec, 2, {.devices = {gpu, gpu}}), train(spec, 2));
  spec = served_job("async", {{"servers", 2}}, "topk");
  EXPECT_TRUE(std::ranges::equal(served_model(spec, gpu).bytes(), served_model(spec, at::kCPU).bytes()));
  spec = small_job("none");
  spec.training.optimizer = {"lamb", {{"lr", 0.01}}};
  spec.training.clip.norm = 0.1;
  expect_same(train(spec, 2, {.devices = {gpu, gpu}}), train(spec, 2));
  spec = small_job("none");
  spec.exchange.topology = "nccl";
  const auto made = Replica::make(spec, 0, 2, 0, gpu);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::unsupported);
  EXPECT_NE(made.error().context.find("exchange.topology \"nccl\" works with kernels: this weir has no kernels for a "
                                      "GPU of compute capability 7.5"),
            std::string::npos)
      << made.error().context;
}

TEST(Device, IsTheGpuThatAJobHasBooked) {
  const Variable visible(visible_gpus, "GPU-1");
  EXPECT_EQ(device_for({{"cpu", 1}, {"gpu", 0.5}}).value(), devices().front());
  EXPECT_EQ(device_for({{"cpu", 1}}).value(), at::Device(at::kCPU));
  EXPECT_EQ(device_for({{"gpu", 0}}).value(), at::Device(at::kCPU));
}

TEST(Device, IsTheProcessorWhereTheNodeHasNoGpuToGive) {
  const Variable none(visible_gpus, "");
  EXPECT_EQ(device_for({{"gpu", 1}}).value(), at::Device(at::kCPU));
  const Variable unset(visible_gpus, nullptr);
  EXPECT_EQ(device_for({{"gpu", 1}}).value(), at::Device(at::kCPU));
}

TEST(Device, ADriverThatIsTooOldIsNamedWithItsNodeAndGpu) {
  EXPECT_EQ(why_no_gpu("alpha", "GPU-1", "13.0", Driver{"535.104.05", "12.2"}),
            "the NVIDIA driver 535.104.05 of node alpha is too old to compute on GPU GPU-1: it is for CUDA up to 12.2, "
            "and LibTorch for CUDA 13.0");
  const std::string unknown =
      "LibTorch finds no GPU on node alpha where CUDA_VISIBLE_DEVICES is \"GPU-1\": `weir doctor` there says what its "
      "driver answers";
  EXPECT_EQ(why_no_gpu("alpha", "GPU-1", "13.0", std::nullopt), unknown);
  EXPECT_EQ(why_no_gpu("alpha", "GPU-1", "13.1", Driver{"580.65.06", "13.0"}), unknown)
      << "the same major version does";
  EXPECT_EQ(why_no_gpu("alpha", "GPU-1", "", Driver{"580.65.06", "13.0"}), unknown);
}

}  // namespace
}  // namespace weir::training::testing
