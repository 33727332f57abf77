// Exchanges by hosts whose ranks add up and copy by NCCL: its fake, between ranks that are threads of this process. All
// have the emulated device, and each is on the host that its address says.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/errc.hpp"
#include "compressors/memory.hpp"
#include "esync_job.hpp"
#include "mode_runs.hpp"
#include "tests/cuda/emulator/emulator.hpp"
#include "tests/cuda/fake_nccl.hpp"
#include "training/device.hpp"
#include "training/exchange/device_lane.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training::testing {
namespace {

const at::Device on_gpu(at::DeviceType::PrivateUse1, 0);

cuda::testing::FakeNccl& nccl() { return cuda::testing::fake_nccl_of(WEIR_FAKE_NCCL_LIBRARY); }

void wait_for_the_end_of_nccl() {
  while (nccl().communicators > 0) std::this_thread::yield();
}

/// By rank, the host that it is on.
using HostsOfRanks = std::vector<std::uint32_t>;
const HostsOfRanks two_and_two{0, 0, 1, 1};

const std::vector<std::vector<std::int64_t>> sizes{{150, 200}, {300}, {60, 100}, {1, 7}};
constexpr std::uint64_t step_count = 4;
constexpr std::uint64_t bytes_of_a_rank = step_count * 4 * (150 * 200 + 300 + 60 * 100 + 7);

struct HostCase {
  std::string compressor;
  HostsOfRanks hosts = two_and_two;
  nlohmann::json params = nullptr;
  double first_epoch = 100;  ///< behind any warm-up
  /// What comes down to hosts' memory, at most: of the gradients of one rank.
  double down_max = 0;
  bool on_processor = false;  ///< the memory works there only

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(hosts.size()); }
  friend void PrintTo(const HostCase& of, std::ostream* out) {
    *out << of.compressor << " on " << of.hosts.back() + 1 << " hosts";
  }
};

/// Keeps nothing, and takes gradients of the host's memory only.
class OnProcessor final : public compressors::Memory {
 public:
  std::string_view name() const override { return "on_processor"; }
  compressors::MemoryTraits traits() const override { return {}; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const compressors::Round&) override {
    if (gradient.is_cpu()) return gradient;
    return Error{Errc::invalid_argument, "a gradient on a device"};
  }
  Result<void> update(const compressors::Round&, const compressors::Sent&, at::Tensor&) override { return {}; }
};

compressors::Compression compression_for(const HostCase& of) {
  const nlohmann::json none;
  auto made = compressors::builtin()
                  .make({.compressor = of.compressor,
                         .params = of.params,
                         .memory = {},
                         .memory_params = none,
                         .setting = {.momentum = 0.9, .nesterov = false}})
                  .value();
  if (of.on_processor) made.memory = std::make_unique<OnProcessor>();
  return made;
}

/// Of one rank.
struct RankOutcome {
  std::vector<at::Tensor> means;  ///< step by step
  bool by_nccl = false;
  std::string lacking;
  std::uint64_t waits = 0;  ///< of the compute thread for the device
  Result<void> done;
};

/// What a rank of a test does with its exchange.
using Act = std::function<void(std::uint32_t rank, Exchange& exchange, collectives::Fabric& group, RankOutcome& own)>;
/// How it joins the others of its host.
using Join = std::function<Result<DeviceLane::OfHosts>(collectives::Fabric& group, at::Device device)>;

Result<DeviceLane::OfHosts> join_usually(collectives::Fabric& group, at::Device device) {
  return DeviceLane::join_hosts(group, device, "");
}

std::vector<RankOutcome> exchange_by_hosts(const HostCase& of, at::Device device, const Act& act,
                                           const Join& join = join_usually) {
  const Group group = mesh_group(of.hosts, /*shared_memory=*/false);
  std::vector<RankOutcome> outcomes(of.ranks());
  run_ranks(of.ranks(), [&](std::uint32_t rank) {
    RankOutcome& own = outcomes[rank];
    std::vector<NamedTensor> tensors;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      tensors.push_back(
          {"tensor" + std::to_string(t), at::zeros(sizes[t], at::TensorOptions(at::kFloat).device(device))});
    }
    {
      DeviceLane::OfHosts joined;
      if (!device.is_cpu()) joined = join(*group[rank], device).value();
      own.by_nccl = joined.lane != nullptr;
      own.lacking = joined.lacking;
      Exchange exchange(
          tensors, compression_for(of), *group[rank],
          {.seed = 3, .bucket_sizes = {.first_bytes = 1024, .bytes = 50'000}, .topology = {.name = "hierarchical"}},
          std::move(joined.lane));
      act(rank, exchange, *group[rank], own);
    }
    group[rank]->close();
  });
  return outcomes;
}

/// Of a rank in a step. The last tensor has none.
std::vector<at::Tensor> values_of(std::uint32_t rank, std::uint64_t step) {
  std::vector<at::Tensor> values;
  const at::Generator random = generator(10 * step + rank);
  for (std::size_t t = 0; t + 1 < sizes.size(); ++t) values.push_back(at::randn(sizes[t], random));
  return values;
}

/// Some steps.
std::vector<RankOutcome> average_by_hosts(const HostCase& of, at::Device device, const Join& join = join_usually) {
  const Act steps = [&](std::uint32_t rank, Exchange& exchange, collectives::Fabric&, RankOutcome& own) {
    for (std::uint64_t step = 0; step < step_count && own.done; ++step) {
      const auto values = values_of(rank, step);
      const auto before = emulator::waits_of_this_thread();
      exchange.begin({.number = step, .epoch = of.first_epoch + 0.25 * static_cast<double>(step)});
      for (std::size_t t = values.size(); t-- > 0;) {
        exchange.give(static_cast<std::uint32_t>(t), values[t].to(device, /*non_blocking=*/true));
      }
      const auto agreed = exchange.finish();
      own.waits += emulator::waits_of_this_thread() - before;
      if (!agreed) own.done = agreed.error();
      if (!agreed) continue;
      for (const Mean& mean : exchange.means()) own.means.push_back(mean.tensor.clone());
    }
  };
  return exchange_by_hosts(of, device, steps, join);
}

/// The ranks have the same means, bit for bit, which are nearly those that come of other sums.
void expect_means(const std::vector<RankOutcome>& there, const std::vector<RankOutcome>& here) {
  for (std::size_t rank = 0; rank < there.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    ASSERT_TRUE(there[rank].done) << there[rank].done.error().message();
    ASSERT_TRUE(here[rank].done) << here[rank].done.error().message();
    EXPECT_EQ(there[rank].waits, 0U) << "for the device, of the thread that computes";
    ASSERT_EQ(there[rank].means.size(), step_count * sizes.size());
    for (std::size_t i = 0; i < there[rank].means.size(); ++i) {
      const at::Tensor mean = there[rank].means[i].cpu();
      EXPECT_TRUE(mean.equal(there[0].means[i].cpu())) << i;
      EXPECT_TRUE(mean.allclose(here[rank].means[i], 1e-4, 1e-5)) << i;
    }
    EXPECT_GT(there[rank].means[0].cpu().abs().sum().item<float>(), 0);
  }
}

class ByNcclWithinHosts : public ::testing::TestWithParam<HostCase> {
 protected:
  void TearDown() override { wait_for_the_end_of_nccl(); }
};

TEST_P(ByNcclWithinHosts, OnlyWhatLeadersExchangeCrosses) {
  const HostCase& of = GetParam();
  const int operations = nccl().operations;
  const int aborted = nccl().aborted;
  const auto down_before = emulator::bytes_to_host();
  const auto there = average_by_hosts(of, on_gpu);
  const auto down = static_cast<double>(emulator::bytes_to_host() - down_before);
  EXPECT_LT(down, of.down_max * bytes_of_a_rank);
  EXPECT_GT(nccl().operations, operations);
  EXPECT_EQ(nccl().aborted, aborted) << "ranks leave in an orderly way";
  for (const RankOutcome& rank : there) EXPECT_TRUE(rank.by_nccl) << rank.lacking;
  expect_means(there, average_by_hosts(of, at::kCPU));
}

const HostsOfRanks two_and_one{0, 0, 1};
const HostsOfRanks all_on_one{0, 0, 0};
const nlohmann::json one_percent = {{"ratio", 0.01}};
/// Dense in the first two steps of an epoch that begins with them.
const nlohmann::json dense_at_first = {{"ratio", 0.01}, {"warmup_epochs", 1}, {"warmup_dense", 0.4}};

// Of two leaders: all of `none`, half of it with `fp16`. On one host nothing goes on, but a memory works on the host.
INSTANTIATE_TEST_SUITE_P(
    All, ByNcclWithinHosts,
    ::testing::Values(HostCase{.compressor = "none", .down_max = 2.01},
                      HostCase{.compressor = "dgc", .params = one_percent, .down_max = 0.4},
                      HostCase{.compressor = "dgc", .params = dense_at_first, .first_epoch = 0, .down_max = 2.01},
                      HostCase{.compressor = "qsgd", .down_max = 0.4},
                      HostCase{.compressor = "powersgd", .params = {{"start_step", 0}}, .down_max = 0.4},
                      HostCase{.compressor = "fp16", .down_max = 1.1},
                      HostCase{.compressor = "topk", .params = one_percent, .down_max = 2.2, .on_processor = true},
                      HostCase{.compressor = "none", .hosts = two_and_one, .down_max = 2.01},
                      HostCase{.compressor = "dgc", .hosts = two_and_one, .params = one_percent, .down_max = 0.4},
                      HostCase{.compressor = "qsgd", .hosts = two_and_one, .down_max = 0.4},
                      HostCase{.compressor = "none", .hosts = all_on_one, .down_max = 0.01},
                      HostCase{.compressor = "fp16", .hosts = all_on_one, .down_max = 0.01},
                      HostCase{.compressor = "qsgd", .hosts = all_on_one, .down_max = 0.01},
                      HostCase{.compressor = "signsgd", .hosts = {0, 0}, .down_max = 0.1},
                      HostCase{.compressor = "dgc", .hosts = all_on_one, .params = one_percent, .down_max = 1.01}));

/// Which shows that gradients that cross are seen.
TEST(WithoutNcclWithinHosts, GradientsOfAllRanksCross) {
  const HostCase of{.compressor = "dgc", .params = one_percent};
  const auto before = emulator::bytes_to_host();
  const auto there = average_by_hosts(of, on_gpu, [](collectives::Fabric& group, at::Device device) {
    return DeviceLane::join_hosts(group, device, group.rank() == 2 ? "rank 2 has no GPU" : "");
  });
  EXPECT_GT(static_cast<double>(emulator::bytes_to_host() - before), 3.9 * bytes_of_a_rank);
  for (const RankOutcome& rank : there) {
    EXPECT_FALSE(rank.by_nccl);
    EXPECT_EQ(rank.lacking, "rank 2 has no GPU");
  }
  expect_means(there, average_by_hosts(of, at::kCPU));
}

/// One host can, and the other cannot.
TEST(WithoutNcclWithinHosts, AllRanksKnowWhichOneHasNone) {
  const HostCase of{.compressor = "qsgd"};
  const auto there = average_by_hosts(of, on_gpu, [](collectives::Fabric& group, at::Device device) {
    return DeviceLane::join_hosts(group, device, "", {.library = group.rank() == 3 ? "libnone.so.2" : "libnccl.so.2"});
  });
  for (const RankOutcome& rank : there) {
    EXPECT_FALSE(rank.by_nccl);
    EXPECT_EQ(rank.lacking, there[0].lacking);
    EXPECT_TRUE(rank.lacking.starts_with("rank 3 (" + host_name() + ") cannot use NCCL: ")) << rank.lacking;
    EXPECT_NE(rank.lacking.find("libnone.so.2"), std::string::npos) << rank.lacking;
  }
  expect_means(there, average_by_hosts(of, at::kCPU));
  wait_for_the_end_of_nccl();
}

TEST(WithoutNcclWithinHosts, RanksThatHaveAHostEachNeedNone) {
  const HostCase of{.compressor = "dgc", .hosts = {0, 1, 2}, .params = one_percent};
  const int operations = nccl().operations;
  const auto there = average_by_hosts(of, on_gpu);
  for (const RankOutcome& rank : there) {
    EXPECT_FALSE(rank.by_nccl);
    EXPECT_EQ(rank.lacking, "");
  }
  EXPECT_EQ(nccl().operations, operations);
  expect_means(there, average_by_hosts(of, at::kCPU));
}

TEST(NcclWithinHosts, WhatIsNoNumberIsNamed) {
  const Act poison = [](std::uint32_t rank, Exchange& exchange, collectives::Fabric&, RankOutcome& own) {
    auto values = values_of(rank, 0);
    if (rank == 1) values[0].view({-1})[17] = std::numeric_limits<float>::quiet_NaN();
    exchange.begin({.number = 0, .epoch = 100});
    for (std::uint32_t t = 0; t < values.size(); ++t) exchange.give(t, values[t].to(on_gpu));
    const auto agreed = exchange.finish();
    if (!agreed) own.done = agreed.error();
  };
  const auto ranks = exchange_by_hosts({.compressor = "dgc", .params = one_percent}, on_gpu, poison);
  ASSERT_FALSE(ranks[1].done);
  EXPECT_EQ(ranks[1].done.error().code, Errc::invalid_argument);
  EXPECT_NE(ranks[1].done.error().context.find("gradient of tensor0: "), std::string::npos)
      << ranks[1].done.error().context;
  for (const std::size_t rank : {0, 2, 3}) {
    ASSERT_FALSE(ranks[rank].done);
    EXPECT_NE(ranks[rank].done.error().context.find("rank 1 has given up"), std::string::npos)
        << ranks[rank].done.error().context;
  }
  wait_for_the_end_of_nccl();
}

// Lost ranks.

bool reach(int operations) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (nccl().operations < operations && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return nccl().operations >= operations;
}

void expect_lost(const std::vector<RankOutcome>& ranks) {
  for (const std::size_t rank : {0, 2, 3}) {
    ASSERT_FALSE(ranks[rank].done);
    EXPECT_EQ(ranks[rank].done.error().code, Errc::peer_lost) << ranks[rank].done.error().message();
    EXPECT_NE(ranks[rank].done.error().message().find("rank 1"), std::string::npos)
        << ranks[rank].done.error().message();
  }
  wait_for_the_end_of_nccl();
}

void finish_to(Exchange& exchange, RankOutcome& own) {
  const auto agreed = exchange.finish();
  if (!agreed) own.done = agreed.error();
}

at::Tensor value_of(std::uint32_t rank, std::uint32_t tensor) {
  return at::full(sizes[tensor], static_cast<float>(rank + 1)).to(on_gpu);
}

/// Rank 1 of each host never gets its first sum done, in which the others of the host are.
TEST(NcclWithinHosts, ARankLostInASumEndsTheOthersWithItsName) {
  const int before = nccl().operations;
  nccl().hanging_rank = 1;
  const Act lose = [&](std::uint32_t rank, Exchange& exchange, collectives::Fabric& group, RankOutcome& own) {
    exchange.begin({.number = 0, .epoch = 100});
    for (std::uint32_t t = 0; t < sizes.size(); ++t) exchange.give(t, value_of(rank, t));
    if (rank == 1) {
      EXPECT_TRUE(reach(before + 4));
      group.abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
    }
    finish_to(exchange, own);
  };
  const auto ranks = exchange_by_hosts({.compressor = "dgc", .params = one_percent}, on_gpu, lose);
  nccl().hanging_rank = -1;
  expect_lost(ranks);
}

/// Rank 3 holds back what is in the last bucket: on the host of rank 1 all sums are done then, and all means but the
/// last have been copied, so that rank 1 is about to receive that one.
TEST(NcclWithinHosts, ARankLostWhenMeansAreCopiedEndsTheOthersWithItsName) {
  const int before = nccl().operations;
  std::latch lost(1);
  const Act lose = [&](std::uint32_t rank, Exchange& exchange, collectives::Fabric& group, RankOutcome& own) {
    const auto buckets = static_cast<int>(exchange.buckets().size());
    const auto& last = exchange.buckets().back().parameters;
    ASSERT_GT(buckets, 1);
    exchange.begin({.number = 0, .epoch = 100});
    for (std::uint32_t t = 0; t < sizes.size(); ++t) {
      const bool held_back = rank == 3 && std::ranges::find(last, t) != last.end();
      if (!held_back) exchange.give(t, value_of(rank, t));
    }
    if (rank == 1) {
      // Of two ranks each: the sums of this host, the means of this host, the sums of the other.
      EXPECT_TRUE(reach(before + 2 * buckets + 2 * (buckets - 1) + 2 * (buckets - 1)));
      group.abort(Error(Errc::cancelled, "killed"), /*leaves=*/true);
      lost.count_down();
    }
    if (rank == 3) lost.wait();
    finish_to(exchange, own);
  };
  expect_lost(exchange_by_hosts({.compressor = "dgc", .params = one_percent}, on_gpu, lose));
}

// Jobs.

protocol::JobSpec job_by_hosts(const std::string& compressor, double gpus = 1) {
  auto spec = small_job(compressor);
  if (compressor != "dgc") spec.compression.compressor.params = nlohmann::json::object();
  spec.model.params = {{"hidden", 80}};  // so that one of its matrices is coded
  spec.exchange.topology = "hierarchical";
  spec.resources.per_worker["gpu"] = gpus;
  return spec;
}

struct JobOutcome {
  std::vector<Watcher> watchers;
  std::vector<Result<bool>> results;
  std::vector<std::string> why_not_nccl;
};

JobOutcome train_on_hosts(const protocol::JobSpec& spec, const HostsOfRanks& hosts,
                          const std::vector<at::Device>& devices) {
  const auto ranks = static_cast<std::uint32_t>(hosts.size());
  const Group group = mesh_group(hosts, /*shared_memory=*/false);
  JobOutcome outcome{std::vector<Watcher>(ranks), std::vector<Result<bool>>(ranks, false),
                     std::vector<std::string>(ranks)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks, 0, devices[rank]).value();
    replica->join(*group[rank]).value();
    outcome.why_not_nccl[rank] = replica->why_not_nccl;
    outcome.results[rank] = replica->mode->train(*replica, outcome.watchers[rank]);
    replica.reset();
    group[rank]->close();
  });
  wait_for_the_end_of_nccl();
  return outcome;
}

void expect_trained(const JobOutcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.results.size(); ++rank) {
    ASSERT_TRUE(outcome.results[rank]) << outcome.results[rank].error().message();
    EXPECT_TRUE(same(outcome.watchers[rank].models.back(), outcome.watchers[0].models.back())) << "rank " << rank;
    EXPECT_EQ(outcome.why_not_nccl[rank], outcome.why_not_nccl[0]);
  }
  EXPECT_FALSE(same(outcome.watchers[0].models.front(), outcome.watchers[0].models.back())) << "nothing was trained";
}

TEST(JobsByHosts, AddUpByNcclWhereEachWorkerHasAGpu) {
  for (const char* compressor : {"none", "dgc", "fp16"}) {
    SCOPED_TRACE(compressor);
    const int operations = nccl().operations;
    const auto outcome = train_on_hosts(job_by_hosts(compressor), two_and_two, std::vector<at::Device>(4, on_gpu));
    expect_trained(outcome);
    EXPECT_EQ(outcome.why_not_nccl[0], "");
    EXPECT_GT(nccl().operations, operations);
  }
}

TEST(JobsByHosts, GoOnWithoutNcclWhereAWorkerHasNoGpu) {
  const int operations = nccl().operations;
  const auto outcome = train_on_hosts(job_by_hosts("dgc"), two_and_two, {on_gpu, on_gpu, on_gpu, at::kCPU});
  expect_trained(outcome);
  EXPECT_EQ(outcome.why_not_nccl[0],
            "rank 3 (" + host_name() + ") computes on the processor: its node has given it no GPU");
  EXPECT_EQ(nccl().operations, operations);
}

TEST(JobsByHosts, GoOnWithoutNcclAsTheJobSays) {
  auto other_transport = job_by_hosts("none");
  other_transport.exchange.transport = "tcp";
  auto slow = job_by_hosts("none");
  slow.training.conditions.link_rate = {"none", "100mbit"};
  const std::vector<std::pair<protocol::JobSpec, std::string>> jobs{{job_by_hosts("none", 0.5), "a part of a GPU"},
                                                                    {other_transport, "exchange.transport \"tcp\""},
                                                                    {slow, "training.params.link_rate"}};
  for (const auto& [spec, reason] : jobs) {
    const int operations = nccl().operations;
    const auto outcome = train_on_hosts(spec, {0, 0}, {on_gpu, on_gpu});
    expect_trained(outcome);
    EXPECT_NE(outcome.why_not_nccl[0].find(reason), std::string::npos) << outcome.why_not_nccl[0];
    EXPECT_EQ(nccl().operations, operations);
  }
}

/// The state server is in the group, and has a lane of it. The two workers, which are on one host, have the rest.
TEST(JobsByHosts, BesideAStateServer) {
  auto spec = esync_job("topk");
  spec.exchange.topology = "hierarchical";
  spec.resources.per_worker["gpu"] = 1;
  const int operations = nccl().operations;
  EsyncJob job(spec, 2, on_gpu);
  job.group = tcp_group(3);
  job.run();
  for (const auto& result : job.results) ASSERT_TRUE(result) << result.error().message();
  EXPECT_TRUE(same(job.watchers[0].common.back(), job.watchers[1].common.back()));
  EXPECT_FALSE(same(job.watchers[0].models.front(), job.watchers[0].common.back())) << "nothing was trained";
  EXPECT_GT(nccl().operations, operations);
  wait_for_the_end_of_nccl();
}

}  // namespace
}  // namespace weir::training::testing
