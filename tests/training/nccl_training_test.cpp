// Training over NCCL: its fake, between ranks that are threads of this process, each with the emulated device. Two
// ranks' sums have the same bits in any order, so that everything has to come to what it comes to on processors.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "esync_job.hpp"
#include "mode_runs.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "tests/cuda/fake_nccl.hpp"
#include "training/device.hpp"
#include "training/exchange/device_lane.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training::testing {
namespace {

const at::Device gpu(at::DeviceType::PrivateUse1, 0);

cuda::testing::FakeNccl& fake() { return cuda::testing::fake_nccl_of(WEIR_FAKE_NCCL_LIBRARY); }

struct Case {
  std::string name;
  protocol::JobSpec spec;

  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }
};

Case of_compressor(const std::string& name, bool has_ratio = false) {
  auto spec = small_job(name);
  if (!has_ratio) spec.compression.compressor.params = nlohmann::json::object();
  return {name, spec};
}

Case of_mode(const std::string& mode, nlohmann::json params, const std::string& compressor) {
  auto spec = small_job(compressor);
  if (compressor != "topk") spec.compression.compressor.params = nlohmann::json::object();
  spec.training.mode = {mode, std::move(params)};
  if (compressor == "topk") spec.compression.memory = {"residual", {}};
  return {mode + "_" + compressor, spec};
}

Case of_aggregation(const std::string& name) {
  auto spec = small_job("none");
  spec.compression.aggregation = name;
  spec.training.optimizer.params["lr"] = 0.01;
  return {name, spec};
}

std::vector<Case> cases() {
  std::vector<Case> list{
      of_compressor("none"),
      of_compressor("bf16"),
      of_compressor("fp16"),
      of_compressor("dgc", true),
      of_compressor("topk", true),
      of_compressor("chunk", true),
      of_compressor("powersgd"),
      of_compressor("terngrad"),
      of_compressor("signsgd"),
      of_mode("local_sgd", {{"period", 4}}, "none"),
      of_mode("local_sgd", {{"period", 4}}, "topk"),
      of_mode("diloco", {{"period", 8}, {"fragments", 2}, {"delay", 2}}, "none"),
      of_mode("diloco", {{"period", 8}}, "bf16"),
      of_aggregation("weighted"),
      of_aggregation("sum"),
      of_aggregation("min"),
      of_aggregation("max"),
      {"batch_norm", with_batch_norm(small_job("none"))},
      {"accumulating", accumulating(small_job("none"), 2)},
  };
  auto models = with_batch_norm(small_job("none"));
  models.compression.apply_to = "models";
  list.push_back({"models", models});
  auto clipped = small_job("none");
  clipped.training.clip = {.norm = 0.1, .value = {}};
  list.push_back({"clipped", clipped});
  auto with_memory = of_compressor("bf16").spec;
  with_memory.compression.memory = {"residual", {}};
  list.push_back({"bf16_with_a_memory", with_memory});
  return list;
}

protocol::JobSpec over_nccl(protocol::JobSpec spec) {
  spec.exchange.topology = "nccl";
  return spec;
}

void expect_same(const Outcome& there, const Outcome& here) {
  for (std::size_t rank = 0; rank < here.watchers.size(); ++rank) {
    ASSERT_TRUE(there.results[rank]) << there.results[rank].error().message();
    ASSERT_TRUE(here.results[rank]) << here.results[rank].error().message();
    EXPECT_TRUE(same(there.watchers[rank].models.back(), here.watchers[rank].models.back())) << "rank " << rank;
    EXPECT_TRUE(same(there.watchers[rank].buffers.back(), here.watchers[rank].buffers.back())) << "rank " << rank;
  }
  const auto& models = there.watchers[0].models;
  EXPECT_FALSE(same(models.front(), models.back())) << "nothing was trained";
}

class OverNccl : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    while (fake().communicators > 0) std::this_thread::yield();
  }
};

TEST_P(OverNccl, TrainsAsOnProcessorsOverARing) {
  const int aborted = fake().aborted;
  const auto there = train(over_nccl(GetParam().spec), 2, {.devices = {gpu, gpu}});
  EXPECT_EQ(fake().aborted, aborted) << "ranks leave in an orderly way";
  expect_same(there, train(GetParam().spec, 2));
}

INSTANTIATE_TEST_SUITE_P(All, OverNccl, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(TrainingOverNccl, OneWorkerAndSeveral) {
  for (const std::uint32_t ranks : {1U, 3U}) {
    const auto outcome = train(over_nccl(small_job("none")), ranks, {.devices = std::vector<at::Device>(ranks, gpu)});
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(outcome.results[rank]) << outcome.results[rank].error().message();
      EXPECT_TRUE(same(outcome.watchers[rank].models.back(), outcome.watchers[0].models.back()));
    }
  }
}

TEST(TrainingOverNccl, GoesOnOverAnotherTopology) {
  const auto spec = small_job("dgc");
  const auto whole = train(spec, 2);
  const std::vector<at::Device> gpus{gpu, gpu};
  const auto stopped = train(over_nccl(spec), 2, {.stop_after = 11, .devices = gpus});
  expect_same(train(spec, 2, {.checkpoint = stopped.checkpoint()}), whole);
  const auto on_processors = train(spec, 2, {.stop_after = 11});
  expect_same(train(over_nccl(spec), 2, {.checkpoint = on_processors.checkpoint(), .devices = gpus}), whole);
}

/// The state server, which has no GPU, is in the group but not among those who exchange.
TEST(TrainingOverNccl, BesideAStateServer) {
  EsyncJob job(over_nccl(esync_job("none")), 2, gpu);
  job.run();
  for (const auto& result : job.results) ASSERT_TRUE(result) << result.error().message();
  EXPECT_TRUE(same(job.watchers[0].common.back(), job.watchers[1].common.back()));
  EXPECT_FALSE(same(job.watchers[0].models.front(), job.watchers[0].common.back())) << "nothing was trained";
  while (fake().communicators > 0) std::this_thread::yield();
}

TEST(TrainingOverNccl, ALostRankEndsTheOthersWithItsName) {
  const auto spec = over_nccl(small_job("none"));
  const Group group = tcp_group(3);
  std::vector<Result<bool>> results(3, false);
  run_ranks(3, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 3, 0, gpu).value();
    Watcher watcher;
    watcher.after_step = [&](std::uint64_t step) {
      if (rank == 1 && step == 5) group[1]->abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
    };
    replica->join(*group[rank]).value();
    results[rank] = replica->mode->train(*replica, watcher);
    replica.reset();
    group[rank]->close();
  });
  for (const std::uint32_t rank : {0U, 2U}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code, Errc::peer_lost) << results[rank].error().message();
    EXPECT_EQ(group[rank]->lost_rank(), 1U);
  }
  while (fake().communicators > 0) std::this_thread::yield();
}

// What a device has of an exchange.

const std::vector<std::vector<std::int64_t>> shapes{{150, 200}, {300}, {60, 100}, {1, 7}};
constexpr std::uint64_t steps = 4;
constexpr std::uint64_t gradient_bytes = 2 * steps * 4 * (150 * 200 + 300 + 60 * 100 + 7);

struct Rank {
  std::vector<at::Tensor> means;
  std::uint64_t waits = 0;  ///< of the compute thread for the device
  std::uint64_t sent_bytes = 0;
  Result<void> done;
};

compressors::Compression make_compression(const std::string& name) {
  const nlohmann::json none = nlohmann::json::object();
  return compressors::builtin()
      .make({.compressor = name, .params = none, .memory = {}, .memory_params = none, .setting = {}})
      .value();
}

/// Some steps of two ranks. The last tensor is never given; `poisoned`: rank 1 has a value there that is not a number.
std::vector<Rank> average(const std::string& compressor, at::Device device, bool poisoned = false) {
  const Group group = tcp_group(2);
  std::vector<Rank> ranks(2);
  run_ranks(2, [&](std::uint32_t rank) {
    Rank& own = ranks[rank];
    std::vector<NamedTensor> tensors;
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      tensors.push_back(
          {"tensor" + std::to_string(t), at::zeros(shapes[t], at::TensorOptions(at::kFloat).device(device))});
    }
    {
      std::unique_ptr<DeviceLane> devices;
      if (!device.is_cpu()) devices = DeviceLane::join(*group[rank], device).value();
      Exchange exchange(tensors, make_compression(compressor), *group[rank],
                        {.seed = 3,
                         .bucket_sizes = {.first_bytes = 1024, .bytes = 50'000},
                         .topology = {.name = device.is_cpu() ? "ring" : "nccl"}},
                        std::move(devices));
      for (std::uint64_t step = 0; step < steps && own.done; ++step) {
        std::vector<at::Tensor> values;
        const at::Generator random = generator(10 * step + rank);
        for (std::size_t t = 0; t + 1 < shapes.size(); ++t) values.push_back(at::randn(shapes[t], random));
        if (poisoned && rank == 1 && step == 2)
          values[1].data_ptr<float>()[17] = std::numeric_limits<float>::quiet_NaN();
        const auto before = emulator::waits_of_this_thread();
        exchange.begin({.number = step});
        for (std::size_t t = values.size(); t-- > 0;) {
          exchange.give(static_cast<std::uint32_t>(t), values[t].to(device, /*non_blocking=*/true));
        }
        const auto agreed = exchange.finish();
        if (!agreed) own.done = agreed.error();
        own.waits += emulator::waits_of_this_thread() - before;
        if (!agreed) continue;
        for (const Mean& mean : exchange.means()) own.means.push_back(mean.tensor.clone());
      }
      own.sent_bytes = totals_of(*group[rank], &exchange.trace()).links.at(0).bytes.sent;
    }
    group[rank]->close();
  });
  return ranks;
}

class SummedOnTheDevice : public ::testing::TestWithParam<std::string> {};

/// But for whether all are finite, and the votes.
TEST_P(SummedOnTheDevice, GradientsStayThere) {
  const auto before = emulator::bytes_to_host();
  const auto there = average(GetParam(), gpu);
  EXPECT_LT(emulator::bytes_to_host() - before, gradient_bytes / 500);
  const auto here = average(GetParam(), at::kCPU);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(there[rank].done) << there[rank].done.error().message();
    EXPECT_EQ(there[rank].waits, 0U) << "for the device, of the thread that computes";
    ASSERT_EQ(there[rank].means.size(), here[rank].means.size());
    for (std::size_t i = 0; i < here[rank].means.size(); ++i) {
      EXPECT_FALSE(there[rank].means[i].is_cpu());
      EXPECT_TRUE(there[rank].means[i].cpu().equal(here[rank].means[i])) << i;
    }
    EXPECT_NEAR(static_cast<double>(there[rank].sent_bytes), static_cast<double>(here[rank].sent_bytes),
                0.05 * static_cast<double>(here[rank].sent_bytes));
  }
}

TEST_P(SummedOnTheDevice, WhatIsNoNumberIsNamed) {
  const auto ranks = average(GetParam(), gpu, /*poisoned=*/true);
  ASSERT_FALSE(ranks[1].done);
  EXPECT_EQ(ranks[1].done.error().code, Errc::invalid_argument);
  EXPECT_NE(ranks[1].done.error().context.find("gradient of tensor1: it is not a number at entry 17 in step 2"),
            std::string::npos)
      << ranks[1].done.error().context;
  ASSERT_FALSE(ranks[0].done);
  EXPECT_NE(ranks[0].done.error().context.find("rank 1 has given up"), std::string::npos)
      << ranks[0].done.error().context;
}

INSTANTIATE_TEST_SUITE_P(All, SummedOnTheDevice, ::testing::Values("none", "bf16", "fp16"),
                         [](const auto& info) { return info.param; });

TEST(WithoutNccl, AllRanksSayWhichOneHasNone) {
  const Group group = tcp_group(2);
  std::vector<Error> errors(2);
  run_ranks(2, [&](std::uint32_t rank) {
    const auto joined = DeviceLane::join(*group[rank], gpu, {.library = rank == 1 ? "libnone.so.2" : "libnccl.so.2"});
    if (!joined) errors[rank] = joined.error();
    group[rank]->close();
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Errc::unsupported);
    EXPECT_NE(error.context.find("rank 1 (" + host_name() + ") cannot use NCCL: "), std::string::npos) << error.context;
    EXPECT_NE(error.context.find("libnone.so.2"), std::string::npos) << error.context;
  }
}

TEST(WithoutNccl, AWorkerOnAProcessorIsRefused) {
  EXPECT_EQ(refusal(over_nccl(small_job("none"))),
            "exchange.topology \"nccl\" works between GPUs, and this worker computes on the processor of "
            "node " +
                host_name() + ", which has given it no GPU (unsupported)");
}

}  // namespace
}  // namespace weir::training::testing
