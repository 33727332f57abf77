// Pushes of workers whose model is on a device, and what servers answer: with the processor's bytes and bits, and
// without copying the gradients or the model. On the emulated device, which does no work before somebody needs it and
// counts what crosses.

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "mode_runs.hpp"
#include "served_job.hpp"
#include "tests/compressors/tensors.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/tensor_coder.hpp"
#include "training/side_stream.hpp"

namespace weir::training::servers {
namespace {

using compressors::test::heavy_tailed;
using compressors::test::same_bits;
using testing::ExchangeCase;

const at::Device gpu(at::DeviceType::PrivateUse1, 0);
constexpr std::uint64_t pushed_entries = 60;
/// Warm-ups of three epochs, in which tensors may go dense, end after six of the pushes.
constexpr CodingSetting setting{.seed = 7, .course = {.epochs = 5}, .steps_per_epoch = 2, .workers = 3};

using Shapes = std::vector<std::vector<std::int64_t>>;

/// A worker's end. All of it is in one stream.
class Worker {
 public:
  Worker(const ExchangeCase& of, const Shapes& shapes, at::Device place)
      : compression_(of.make()), coder_(compression_, setting), place_(place) {
    if (!place.is_cpu()) in_stream_.reset_stream(stream_for_coding(place));
    for (const auto& shape : shapes) copies_.push_back(at::zeros(shape, at::TensorOptions(at::kFloat).device(place)));
  }

  Bytes push(std::uint64_t clock) {
    std::vector<Gradient> gradients;
    for (std::uint32_t t = 0; t < copies_.size(); ++t) {
      const auto sizes = copies_[t].sizes();
      gradients.push_back({t, "tensor", heavy_tailed(copies_[t].numel(), 10 * clock + t).view(sizes).to(place_)});
    }
    const auto before = emulator::bytes_to_host();
    const auto waits = emulator::waits_of_this_thread();
    Bytes body;
    const auto written = coder_.write_gradients(gradients, {.worker = 1, .clock = clock, .step = clock}, body);
    came_down_ = emulator::bytes_to_host() - before;
    waits_ = emulator::waits_of_this_thread() - waits;
    EXPECT_TRUE(written) << written.error().message();
    std::size_t bytes = 0;
    for (const auto of_one : written ? *written : std::vector<std::size_t>()) bytes += of_one;
    EXPECT_EQ(bytes, body.size());
    return body;
  }

  void take(BytesView answer, std::uint64_t clock) {
    const auto down = emulator::bytes_to_host();
    const auto up = emulator::bytes_to_device();
    const auto waits = emulator::waits_of_this_thread();
    Reader reader(answer);
    for (std::uint32_t t = 0; t < copies_.size(); ++t) {
      const auto read =
          coder_.read_difference(reader, t, {.worker = 1, .clock = clock, .step = clock, .answers = true}, copies_[t]);
      ASSERT_TRUE(read) << read.error().message();
    }
    EXPECT_TRUE(reader.end());
    came_down_ = emulator::bytes_to_host() - down;
    went_up_ = emulator::bytes_to_device() - up;
    waits_ = emulator::waits_of_this_thread() - waits;
  }

  at::Tensor copy(std::size_t tensor) const { return copies_[tensor].to(at::kCPU); }
  const compressors::Compression& compression() const { return compression_; }

  // Of the last push or answer:
  std::uint64_t came_down() const { return came_down_; }
  std::uint64_t went_up() const { return went_up_; }
  std::uint64_t waits() const { return waits_; }

 private:
  compressors::Compression compression_;
  TensorCoder coder_;
  const at::Device place_;
  c10::OptionalStreamGuard in_stream_;
  std::vector<at::Tensor> copies_;
  std::uint64_t came_down_ = 0;
  std::uint64_t went_up_ = 0;
  std::uint64_t waits_ = 0;
};

/// The server of that worker, whose model goes on with each answer.
class ItsServer {
 public:
  ItsServer(const ExchangeCase& of, const Shapes& shapes) : compression_(of.make()), coder_(compression_, setting) {
    for (const auto& shape : shapes) {
      models_.push_back(at::zeros(shape));
      copies_.push_back(at::zeros(shape));
    }
  }

  Bytes answer(std::uint64_t clock) {
    Bytes body;
    const Turn turn{.worker = 1, .clock = clock, .step = clock, .answers = true};
    for (std::uint32_t t = 0; t < models_.size(); ++t) {
      models_[t].add_(heavy_tailed(models_[t].numel(), 500 + 10 * clock + t).view(models_[t].sizes()));
      const auto written = coder_.write_difference(t, models_[t], copies_[t], turn, pushed_entries, body);
      EXPECT_TRUE(written) << written.error().message();
    }
    return body;
  }

  const std::vector<at::Tensor>& copies() const { return copies_; }

 private:
  compressors::Compression compression_;
  TensorCoder coder_;
  std::vector<at::Tensor> models_;
  std::vector<at::Tensor> copies_;
};

/// Every compressor and memory that fit, with the parameters that other tests use.
std::vector<ExchangeCase> fitting() {
  auto cases = testing::exchange_cases();
  std::erase_if(cases, [](const ExchangeCase& it) { return misfit(it.make()).has_value(); });
  return cases;
}

class PushesFromADevice : public ::testing::TestWithParam<ExchangeCase> {};
INSTANTIATE_TEST_SUITE_P(All, PushesFromADevice, ::testing::ValuesIn(fitting()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(PushesFromADevice, AreThoseOfTheProcessorAndSoAreTheCopies) {
  const Shapes shapes{{40, 30}, {5000}, {7}, {30, 4, 3}};
  Worker there(GetParam(), shapes, gpu);
  Worker here(GetParam(), shapes, at::kCPU);
  ItsServer server(GetParam(), shapes);
  const bool exact = here.compression().compressor->traits().exact_on_devices;
  for (std::uint64_t clock = 1; clock <= 8; ++clock) {
    SCOPED_TRACE(clock);
    const Bytes push = here.push(clock);
    const Bytes of_device = there.push(clock);
    if (exact) {
      EXPECT_TRUE(std::ranges::equal(of_device, push));
    }
    const Bytes answer = server.answer(clock);
    there.take(answer, clock);
    here.take(answer, clock);
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      EXPECT_TRUE(same_bits(there.copy(t), server.copies()[t])) << "tensor " << t;
      EXPECT_TRUE(same_bits(here.copy(t), server.copies()[t])) << "tensor " << t << " of the processor";
    }
  }
  if (!exact) return;
  const auto kept_there = there.compression().memory->save();
  const auto kept = here.compression().memory->save();
  ASSERT_EQ(kept_there.size(), kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept_there[i].name, kept[i].name);
    EXPECT_TRUE(same_bits(kept_there[i].tensor.to(at::kCPU), kept[i].tensor)) << kept[i].name;
  }
}

/// What crosses in a push and its answer, as shares of the tensors' bytes.
struct Crossing {
  std::string compressor;
  nlohmann::json params = nlohmann::json::object();
  double down_max = 0.2;  ///< in the push
  double up_max = 0.2;    ///< in the answer

  friend void PrintTo(const Crossing& of, std::ostream* out) { *out << of.compressor; }
};

ExchangeCase case_of(const std::string& compressor, const nlohmann::json& params) {
  return {.compressor = compressor,
          .params = params,
          .memory = {},
          .memory_params = nlohmann::json::object(),
          .setting = {.momentum = 0.9, .nesterov = false}};
}

class CrossingOfPushes : public ::testing::TestWithParam<Crossing> {};
INSTANTIATE_TEST_SUITE_P(All, CrossingOfPushes,
                         ::testing::Values(Crossing{"topk", {{"ratio", 0.01}}},
                                           Crossing{"dgc", {{"ratio", 0.01}, {"warmup_epochs", 0}}},
                                           Crossing{"sketchml", {{"ratio", 0.01}}},
                                           Crossing{"randomk", {{"ratio", 0.01}}},
                                           Crossing{"int8", nlohmann::json::object(), 0.3, 0.3},
                                           Crossing{"bf16", nlohmann::json::object(), 0.55, 0.55},
                                           Crossing{"natural", nlohmann::json::object(), 0.3, 0.3}, Crossing{"onebit"}),
                         [](const auto& info) { return info.param.compressor; });

TEST_P(CrossingOfPushes, IsWhatIsSentAndNotTheTensor) {
  const Shapes shapes{{150, 200}, {300}, {60, 100}};
  constexpr double dense_bytes = 4 * (150 * 200 + 300 + 60 * 100);
  const auto it = case_of(GetParam().compressor, GetParam().params);
  Worker worker(it, shapes, gpu);
  ItsServer server(it, shapes);
  for (std::uint64_t clock = 1; clock <= 3; ++clock) {
    worker.push(clock);
    EXPECT_LT(static_cast<double>(worker.came_down()), GetParam().down_max * dense_bytes);
    worker.take(server.answer(clock), clock);
    EXPECT_LT(static_cast<double>(worker.went_up()), GetParam().up_max * dense_bytes);
    EXPECT_LT(static_cast<double>(worker.came_down()), 0.005 * dense_bytes) << "for an answer";
  }
}

TEST(PlainPushes, ComeDownTogetherAndNobodyWaitsForAnAnswer) {
  const Shapes shapes{{40, 30}, {300}, {7}};
  constexpr std::uint64_t dense_bytes = 4 * (40 * 30 + 300 + 7);
  const auto it = case_of("none", nlohmann::json::object());
  Worker worker(it, shapes, gpu);
  ItsServer server(it, shapes);
  worker.push(1);
  EXPECT_EQ(worker.came_down(), dense_bytes);
  EXPECT_EQ(worker.waits(), 1U) << "for one copy";
  worker.take(server.answer(1), 1);
  EXPECT_EQ(worker.went_up(), dense_bytes);
  EXPECT_EQ(worker.came_down(), 0U);
  EXPECT_EQ(worker.waits(), 0U);
}

protocol::JobSpec job_with(const std::string& compressor) {
  auto spec = testing::served_job("async", {{"servers", 2}}, compressor);
  if (compressor != "topk" && compressor != "dgc") spec.compression.compressor.params = nlohmann::json::object();
  return spec;
}

Segment trained(const protocol::JobSpec& spec, at::Device device) {
  testing::ServedJob job(spec, 1);
  job.device = device;
  job.run();
  return job.first_server().models.rbegin()->second;
}

/// Whose computing and coding are in two streams.
TEST(JobsWithServers, ComeToTheProcessorsModelOnADevice) {
  for (const std::string compressor : {"none", "topk", "dgc", "int8", "bf16", "terngrad", "onebit"}) {
    const auto spec = job_with(compressor);
    EXPECT_TRUE(std::ranges::equal(trained(spec, gpu).bytes(), trained(spec, at::kCPU).bytes())) << compressor;
  }
  auto spec = testing::with_batch_norm(job_with("topk"));
  spec.evaluate_every_steps = 4;
  EXPECT_TRUE(std::ranges::equal(trained(spec, gpu).bytes(), trained(spec, at::kCPU).bytes())) << "with statistics";
}

TEST(JobsWithServers, LeaveTheGradientsAndTheModelOnTheDevice) {
  auto spec = job_with("topk");
  spec.model.params = {{"hidden", 512}};
  spec.compression.compressor.params = {{"ratio", 0.01}};
  const auto down_before = emulator::bytes_to_host();
  const auto up_before = emulator::bytes_to_device();
  testing::ServedJob job(spec, 1);
  job.device = gpu;
  job.run();
  const auto pushes = static_cast<double>(job.told[0]->records.size());
  ASSERT_GE(pushes, 20);
  const double model_bytes = pushes * 4 * (64 * 512 + 512 * 4);
  EXPECT_LT(static_cast<double>(emulator::bytes_to_host() - down_before), 0.3 * model_bytes);
  EXPECT_LT(static_cast<double>(emulator::bytes_to_device() - up_before), 0.3 * model_bytes);
}

}  // namespace
}  // namespace weir::training::servers
