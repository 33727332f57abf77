// The parts of a parameter server, one by one.

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <span>

#include "base/errc.hpp"
#include "training/job_parts.hpp"
#include "training/modes/mode.hpp"
#include "training/servers/division.hpp"
#include "training/servers/messages.hpp"
#include "training/servers/shard.hpp"
#include "training/servers/tensor_coder.hpp"

namespace weir::training::servers {
namespace {

TEST(Division, NoServerHasMoreThanTheAverageAndTheLargestTensor) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::uint64_t> entries(1 + random() % 40);
    for (auto& one : entries) one = 1 + random() % 5000;
    const auto servers = static_cast<std::uint32_t>(1 + random() % 8);
    const auto parts = divide(entries, servers);
    ASSERT_EQ(parts.size(), servers);
    std::vector<int> owners(entries.size(), 0);
    const auto total = std::accumulate(entries.begin(), entries.end(), std::uint64_t{0});
    for (const auto& part : parts) {
      std::uint64_t size = 0;
      for (const auto tensor : part) {
        size += entries[tensor];
        ++owners[tensor];
      }
      EXPECT_LE(size, total / servers + *std::ranges::max_element(entries));
      EXPECT_TRUE(std::ranges::is_sorted(part));
    }
    EXPECT_TRUE(std::ranges::all_of(owners, [](int count) { return count == 1; }));
  }
}

TEST(Messages, WhatIsCutShortOrUnknownIsRefused) {
  Bytes body;
  write(body, Push{.clock = 1, .version = 2, .step = 3, .buffers = 4});
  const auto push = Reader(body).push().value();
  EXPECT_EQ(push.clock, 1u);
  EXPECT_EQ(push.buffers, 4u);
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_EQ(Reader(BytesView(body).first(length)).push().error().code, Errc::malformed);
  }
  Bytes answer;
  write(answer, Answer{.clock = 1, .version = 1, .step = 1, .flags = Answer::flags_end});
  EXPECT_EQ(Reader(answer).answer().error().code, Errc::malformed);
  EXPECT_EQ(Reader(answer).answer().error().context, "a flag that this build does not know");
  Bytes rest;
  write(rest, Rest{.version = 1, .step = 1, .applied = 1, .flags = Rest::flags_end});
  EXPECT_EQ(Reader(rest).rest().error().code, Errc::malformed);
  EXPECT_EQ(Reader(rest).rest().error().context, "a flag that this build does not know");
  EXPECT_EQ(kind_of({.version = 0, .bucket = 0, .part = 0}).error().code, Errc::malformed);
  EXPECT_EQ(kind_of({.version = 0, .bucket = 12, .part = 0}).error().code, Errc::malformed);
  EXPECT_EQ(Reader(body).bytes(~std::uint64_t{0}).error().code, Errc::malformed);
}

compressors::Compression compression_of(const std::string& compressor, nlohmann::json params) {
  protocol::JobSpec spec;
  spec.compression.compressor = {compressor, std::move(params)};
  return make_compression(spec).value();
}

/// Appends what a worker pushes of one tensor.
Result<void> write_gradient(TensorCoder& worker, std::uint32_t tensor, const at::Tensor& gradient, const Turn& turn,
                            Bytes& body) {
  const Gradient one{tensor, "weight", gradient};
  const auto written = worker.write_gradients(std::span(&one, 1), turn, body);
  return written ? Result<void>() : written.error();
}

constexpr CodingSetting setting{.seed = 7, .course = {.epochs = 2}, .steps_per_epoch = 10, .workers = 3};

/// A worker's gradient is one rank's own, in tensors that travel as they are, too: the mean of 16 is shorter.
TEST(Gradients, AreClippedAsOneRanksOwnHoweverTheyTravel) {
  protocol::JobSpec spec;
  spec.compression.compressor = {"dgc", {{"warmup_epochs", 0}}};
  spec.compression.memory = {"dgc", {{"clip_norm", 1.0}}};
  auto compression = make_compression(spec).value();
  TensorCoder worker(compression, {.seed = 7, .course = {.epochs = 2}, .steps_per_epoch = 10, .workers = 16});
  const auto norm_of_sent = [&](std::uint32_t tensor, const at::Tensor& gradient) {
    Bytes body;
    EXPECT_TRUE(write_gradient(worker, tensor, gradient, {.worker = 1, .clock = 1}, body));
    at::Tensor read = at::zeros(gradient.sizes());
    Reader reader(body);
    const auto bytes = reader.bytes(static_cast<std::uint64_t>(read.numel()) * sizeof(float)).value();
    std::memcpy(read.data_ptr(), bytes.data(), bytes.size());
    return read.norm().item<double>();
  };
  EXPECT_NEAR(norm_of_sent(0, at::full({64}, 0.25)), 2, 1e-5) << "within four times the limit";
  EXPECT_NEAR(norm_of_sent(1, at::full({64}, 4.0)), 4, 1e-5);
}

class Differences : public ::testing::TestWithParam<std::pair<std::string, nlohmann::json>> {};
INSTANTIATE_TEST_SUITE_P(
    Compressors, Differences,
    ::testing::Values(std::pair("none", nlohmann::json::object()), std::pair("fp16", nlohmann::json::object()),
                      std::pair("bf16", nlohmann::json::object()), std::pair("int8", nlohmann::json::object()),
                      std::pair("qsgd", nlohmann::json::object()), std::pair("terngrad", nlohmann::json::object()),
                      std::pair("topk", nlohmann::json{{"ratio", 0.05}}),
                      std::pair("randomk", nlohmann::json{{"ratio", 0.05}}),
                      std::pair("randomk", nlohmann::json{{"ratio", 0.05}, {"value_codec", "fp16"}}),
                      std::pair("dgc", nlohmann::json{{"ratio", 0.05}, {"warmup_epochs", 0}})));

/// The error feedback of the way down: the copy comes to a model that stands still, and is the same on both ends.
TEST_P(Differences, BringBothCopiesToTheModel) {
  auto compression = compression_of(GetParam().first, GetParam().second);
  TensorCoder server(compression, setting);
  auto of_worker = compression_of(GetParam().first, GetParam().second);
  TensorCoder worker(of_worker, setting);
  const at::Tensor model = at::randn({40, 30});
  at::Tensor copy = at::zeros({40, 30});
  at::Tensor own = at::zeros({40, 30});
  const double at_first = (model - copy).norm().item<double>();
  for (std::uint64_t clock = 1; clock <= 300; ++clock) {
    const Turn turn{.worker = 1, .clock = clock, .step = clock / 3, .answers = true};
    Bytes body;
    constexpr std::uint64_t pushed = 60;
    ASSERT_TRUE(server.write_difference(0, model, copy, turn, pushed, body));
    Reader reader(body);
    const auto read = worker.read_difference(reader, 0, turn, own);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_TRUE(reader.end());
    ASSERT_TRUE(own.equal(copy)) << clock;
  }
  EXPECT_LT((model - copy).norm().item<double>(), 1e-3 * at_first);
}

/// In wide sketches an entry takes fifty bytes, and there are as many entries as the workers have pushed.
TEST(SketchedDifferences, HaveRoomInAMessage) {
  const nlohmann::json params = {{"ratio", 0.05}, {"rows", 8}, {"columns", 8.0}};
  auto compression = compression_of("sketchml", params);
  TensorCoder server(compression, setting);
  auto of_worker = compression_of("sketchml", params);
  TensorCoder worker(of_worker, setting);
  constexpr std::uint64_t entries = 20'000;
  const at::Tensor model = at::randn({200, 100});
  at::Tensor copy = at::zeros({200, 100});
  at::Tensor own = at::zeros({200, 100});
  for (std::uint64_t clock = 1; clock <= 12; ++clock) {
    const Turn turn{.worker = 1, .clock = clock, .step = clock, .answers = true};
    Bytes body;
    ASSERT_TRUE(server.write_difference(0, model, copy, turn, entries, body));
    EXPECT_LE(body.size(), TensorCoder::bytes_max(entries));
    Reader reader(body);
    ASSERT_TRUE(worker.read_difference(reader, 0, turn, own));
    EXPECT_TRUE(reader.end());
    ASSERT_TRUE(own.equal(copy)) << clock;
  }
  EXPECT_LT((model - copy).norm().item<double>(), 0.5 * model.norm().item<double>());
}

TEST(RoundedDifferences, TakeTwoBytesANumber) {
  const auto bytes_of = [](const std::string& compressor, const nlohmann::json& params) {
    auto compression = compression_of(compressor, params);
    TensorCoder server(compression, setting);
    at::Tensor copy = at::zeros({40, 30});
    Bytes body;
    EXPECT_TRUE(server.write_difference(0, at::randn({40, 30}), copy, {.clock = 1, .answers = true}, 60, body));
    EXPECT_GT(copy.count_nonzero().item<std::int64_t>(), 0) << compressor;
    return body.size();
  };
  constexpr std::size_t length_bytes = 8;
  EXPECT_EQ(bytes_of("fp16", nlohmann::json::object()), length_bytes + 2 * 1200);
  EXPECT_EQ(bytes_of("bf16", nlohmann::json::object()), length_bytes + 2 * 1200);
  EXPECT_EQ(bytes_of("randomk", {{"ratio", 0.05}, {"value_codec", "fp16"}}), length_bytes + 2 * 60);
}

TEST(Gradients, OfEveryCompressorThatFitsArriveAsTheyWereSent) {
  std::size_t fit = 0;
  for (const auto& entry : compressors::builtin().compressors()) {
    auto compression = compression_of(entry.name, {});
    if (misfit(compression)) continue;
    ++fit;
    auto of_server = compression_of(entry.name, {});
    TensorCoder worker(compression, setting);
    TensorCoder server(of_server, setting);
    const at::Tensor gradient = at::randn({24, 20});
    const at::Tensor bias = at::randn({24});
    const Turn turn{.worker = 2, .clock = 5, .step = 3};
    Bytes body;
    ASSERT_TRUE(write_gradient(worker, 0, gradient, turn, body)) << entry.name;
    ASSERT_TRUE(write_gradient(worker, 1, bias, turn, body)) << entry.name;
    Mean mean{.tensor = at::zeros({24, 20}), .sparse = false, .positions = {}};
    Mean of_bias{.tensor = at::zeros({24}), .sparse = false, .positions = {}};
    Reader reader(body);
    const auto read = server.read_gradient(reader, 0, turn, 1, true, mean);
    ASSERT_TRUE(read) << entry.name << ": " << read.error().message();
    ASSERT_TRUE(server.read_gradient(reader, 1, turn, 1, true, of_bias)) << entry.name;
    EXPECT_TRUE(reader.end()) << entry.name;
    EXPECT_GT(mean.tensor.norm().item<double>(), 0) << entry.name;
    EXPECT_TRUE(compression.compressor->takes(bias.sizes()) || of_bias.tensor.equal(bias)) << entry.name;
    // What it sends points where the gradient does.
    EXPECT_GT((mean.tensor * gradient).sum().item<double>(), 0) << entry.name;
  }
  EXPECT_GT(fit, 10u);
}

class SparsePushes : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Compressors, SparsePushes, ::testing::Values("topk", "dgc", "blockk"));

/// The server's optimizer has no momentum, so what the pushes leave alone does not change. A worker that has waited for
/// the pushes of all others gets all that they have changed, and no more is sent than came.
TEST_P(SparsePushes, ComeBackWhole) {
  constexpr double rate = 0.1;
  constexpr std::uint32_t workers = 3;
  constexpr std::int64_t rows = 100;
  const nlohmann::json params = GetParam() == "dgc" ? nlohmann::json{{"warmup_epochs", 0}} : nlohmann::json::object();
  auto compression = compression_of(GetParam(), params);
  const CodingSetting coding{.seed = 1, .course = {.epochs = 1}, .steps_per_epoch = 100, .workers = workers};
  const at::Tensor model = at::randn({rows, rows});
  const std::vector<NamedTensor> parameters{{"weight", model}};
  const auto rule = modes().make("async", {}).value()->rule({.clocks = std::vector<std::uint64_t>(workers)});
  Shard shard(parameters, {0},
              optimizers().make("sgd", {{"lr", rate}, {"momentum", 0}}, OptimizerSetting{parameters}).value(),
              compression, coding);
  std::size_t bytes_in = 0;
  Turn turn;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    auto of_worker = compression_of(GetParam(), params);
    TensorCoder encoder(of_worker, coding);
    turn = {.worker = worker, .clock = 1};
    Bytes body;
    ASSERT_TRUE(write_gradient(encoder, 0, at::randn({rows, rows}), turn, body));
    bytes_in += body.size();
    std::vector<Shard::Pushed> pushes{{turn, Reader(body)}};
    ASSERT_TRUE(shard.apply(pushes, rate, *rule));
  }
  const at::Tensor changed = model - shard.copies_of(2)[0].tensor;
  ASSERT_GT(changed.count_nonzero().item<std::int64_t>(), 0);
  Bytes answer;
  ASSERT_TRUE(shard.answer(turn, answer));
  EXPECT_LT(answer.size(), bytes_in);
  const at::Tensor left = model - shard.copies_of(2)[0].tensor;
  constexpr double rounded_by_codecs = 0.2;
  EXPECT_LT(left.norm().item<double>(), rounded_by_codecs * changed.norm().item<double>());
}

/// What a worker is owed when its server stops it gets from the server that goes on.
TEST(SavedPushes, AreAnsweredAfterAHalt) {
  constexpr std::uint32_t workers = 3;
  constexpr std::int64_t rows = 100;
  auto compression = compression_of("topk", {{"ratio", 0.01}});
  const CodingSetting coding{.seed = 1, .course = {.epochs = 1}, .steps_per_epoch = 100, .workers = workers};
  const at::Tensor model = at::zeros({rows, rows});
  const std::vector<NamedTensor> parameters{{"weight", model}};
  const auto shard = [&] {
    return Shard(parameters, {0},
                 optimizers().make("sgd", {{"lr", 0.1}, {"momentum", 0}}, OptimizerSetting{parameters}).value(),
                 compression, coding);
  };
  // The model is changed by those that push, and worker 2 only has what it began with.
  auto stopped = shard();
  auto restored = shard();
  const auto rule = modes().make("async", {}).value()->rule({.clocks = std::vector<std::uint64_t>(workers)});
  Bytes body;
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    TensorCoder encoder(compression, coding);
    const Turn turn{.worker = worker, .clock = 1};
    body.clear();
    ASSERT_TRUE(write_gradient(encoder, 0, at::randn({rows, rows}), turn, body));
    std::vector<Shard::Pushed> pushes{{turn, Reader(body)}};
    ASSERT_TRUE(stopped.apply(pushes, 0.1, *rule));
  }
  ASSERT_TRUE(restored.restore_pushed(std::vector{stopped.save_pushed()}));
  for (Shard* const one : {&stopped, &restored}) {
    Bytes answer;
    ASSERT_TRUE(one->answer({.worker = 2, .clock = 1}, answer));
    EXPECT_TRUE(one->copies_of(2)[0].tensor.allclose(model, 0.01, 1e-6));
  }
  EXPECT_EQ(restored.restore_pushed({}).error().code, Errc::malformed);
  for (const at::Tensor& wrong :
       {at::zeros({workers, 1}), at::zeros({workers, 2}, at::kLong), at::full({workers, 1}, -1, at::kLong)}) {
    EXPECT_EQ(restored.restore_pushed(std::vector{NamedTensor{"pushed", wrong}}).error().code, Errc::malformed);
  }
}

/// DC-ASGD as the paper writes it, with a copy for each worker.
TEST(DelayCompensation, IsThatOfThePaper) {
  constexpr double lambda = 0.4;
  constexpr double rate = 0.1;
  constexpr std::uint32_t workers = 2;
  auto compression = compression_of("none", {});
  auto of_worker = compression_of("none", {});
  const CodingSetting coding{.seed = 1, .course = {.epochs = 1}, .steps_per_epoch = 100, .workers = workers};
  const at::Tensor model = at::randn({6, 5});
  const std::vector<NamedTensor> parameters{{"weight", model}};
  const auto rule =
      modes().make("async", {{"delay_compensation", lambda}}).value()->rule({.clocks = std::vector<std::uint64_t>(2)});
  at::Tensor w = model.clone();
  std::vector<at::Tensor> backup(workers, model.clone());
  Shard shard(parameters, {0},
              optimizers().make("sgd", {{"lr", rate}, {"momentum", 0}}, OptimizerSetting{parameters}).value(),
              compression, coding);
  TensorCoder encoder(of_worker, coding);
  std::vector<std::uint64_t> clocks(workers, 0);
  for (const std::uint32_t worker : {0, 1, 1, 1, 0, 1, 0, 0}) {
    const at::Tensor g = at::randn({6, 5});
    const Turn turn{.worker = worker, .clock = ++clocks[worker]};
    Bytes body;
    ASSERT_TRUE(write_gradient(encoder, 0, g, turn, body));
    std::vector<Shard::Pushed> pushes{{turn, Reader(body)}};
    ASSERT_TRUE(shard.apply(pushes, rate / workers, *rule));
    w -= rate / workers * (g + lambda * g * g * (w - backup[worker]));
    Bytes answer;
    ASSERT_TRUE(shard.answer(turn, answer));
    backup[worker] = w.clone();
    EXPECT_TRUE(model.allclose(w, 1e-5, 1e-6));
  }
}

TEST(DelayCompensation, OfZeroIsPlain) {
  EXPECT_FALSE(modes().make("async", {}).value()->rule({.clocks = {0}})->corrects());
}

}  // namespace
}  // namespace weir::training::servers
