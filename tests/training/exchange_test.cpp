#include "training/exchange/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "ranks.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/optimizers/sgd.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;

std::vector<std::vector<std::uint32_t>> parameters_of(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const auto& bucket : buckets) all.push_back(bucket.parameters);
  return all;
}

TEST(Buckets, FillInReverseOrderTheFirstOneSmall) {
  const std::vector<ParameterSize> sizes{{40}, {40}, {40}, {40}, {40}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 80});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{4}, {3, 2}, {1, 0}}));
  EXPECT_FALSE(buckets.back().coded);
}

TEST(Buckets, WhatIsCompleteLastIsInASmallOne) {
  const std::vector<ParameterSize> sizes{{10}, {15}, {10}, {40}, {40}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 1000});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{4}, {3, 2}, {1, 0}}));
}

TEST(Buckets, OneThatIsSmallEnoughStaysWhole) {
  const std::vector<ParameterSize> sizes{{10}, {15}, {5}, {40}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 1000});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{3}, {2, 1, 0}}));
}

TEST(Buckets, WhoseLastParameterIsLargeIsNotDivided) {
  const std::vector<ParameterSize> sizes{{40}, {5}, {40}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 1000});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{2}, {1, 0}}));
}

TEST(Buckets, PlainParametersBesideCodedOnesShareTheLast) {
  const std::vector<ParameterSize> sizes{{100, true}, {4}, {100, true}, {4}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 50, .bytes = 1000});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{2}, {0}, {3, 1}}));
  EXPECT_TRUE(buckets[0].coded);
  EXPECT_TRUE(buckets[1].coded);
  EXPECT_FALSE(buckets[2].coded);
}

TEST(Buckets, WhatIsAveragedBesideOthersHasABucketBeforeTheLast) {
  const std::vector<ParameterSize> sizes = {{10}, {10, false, true}, {10}, {10, false, true}};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 1000});
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_TRUE(buckets[0].averaged);
  EXPECT_EQ(buckets[0].parameters, (std::vector<std::uint32_t>{3, 1}));
  EXPECT_FALSE(buckets[1].averaged);
  EXPECT_EQ(buckets[1].parameters, (std::vector<std::uint32_t>{2, 0}));
  const auto alone = plan_buckets(std::vector<ParameterSize>{{10, false, true}}, {.first_bytes = 30, .bytes = 1000});
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_TRUE(alone[0].averaged);
  EXPECT_TRUE(alone[1].parameters.empty()) << "it carries the votes";
}

TEST(Buckets, TheLastIsPlainEvenIfNothingIs) {
  const auto buckets = plan_buckets(std::vector<ParameterSize>{{100, true}}, {});
  EXPECT_EQ(parameters_of(buckets), (std::vector<std::vector<std::uint32_t>>{{0}, {}}));
  EXPECT_EQ(plan_buckets({}, {}).size(), 1u);
}

TEST(Buckets, OfAGroupHaveItsParametersOnlyAndTheirOwnVotes) {
  const std::vector<ParameterSize> sizes{{40, true}, {8, false}, {40, true}, {40, true}, {8, false}};
  const std::vector<std::uint32_t> groups{0, 1, 0, 1, 1};
  const auto buckets = plan_buckets(sizes, {.first_bytes = 30, .bytes = 80}, groups);
  using Parameters = std::vector<std::uint32_t>;
  ASSERT_EQ(buckets.size(), 5U);
  EXPECT_EQ(buckets[0].parameters, Parameters{2});
  EXPECT_EQ(buckets[1].parameters, Parameters{0});
  EXPECT_EQ(buckets[2].parameters, Parameters{}) << "for votes";
  EXPECT_EQ(buckets[3].parameters, Parameters{3});
  EXPECT_EQ(buckets[4].parameters, (Parameters{4, 1}));
  for (std::size_t b = 0; b < buckets.size(); ++b) EXPECT_EQ(buckets[b].group, b < 3 ? 0U : 1U);
}

compressors::Compression compression(const std::string& name, const nlohmann::json& params = nullptr) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = name, .params = params, .memory = {}, .memory_params = none, .setting = {}})
      .value();
}

/// Two layers without bias, and something that is never used.
struct Net {
  explicit Net(float value) {
    first = at::full({4, 4}, value).set_requires_grad(true);
    second = at::full({4, 2}, value).set_requires_grad(true);
    unused = at::full({3}, value).set_requires_grad(true);
  }
  std::vector<NamedTensor> parameters() const { return {{"first", first}, {"second", second}, {"unused", unused}}; }
  at::Tensor first, second, unused;
};

TEST(Exchange, GivesTheMeanAndTheSumOfTheVotes) {
  auto group = collectives::in_process_group(3);
  run_ranks(3, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression("none"), *group[rank], {});
    GradientTrigger gradients(exchange, net.parameters());
    for (std::uint64_t step = 0; step < 3; ++step) {
      gradients.begin({.number = step, .vote = rank == 1 ? 1.0f : 0.0f});
      const auto input = at::full({1, 4}, static_cast<float>(rank));
      input.mm(net.first).mm(net.second).sum().backward();
      const auto agreed = gradients.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
      EXPECT_EQ(agreed->votes, 1.0f);
      // d/d first = input x row sums of second = rank x 2; the mean over ranks 0, 1, 2 is 2.
      EXPECT_TRUE(exchange.means()[0].tensor.allclose(at::full({4, 4}, 2.0f)));
      EXPECT_TRUE(exchange.means()[1].tensor.allclose(at::full({4, 2}, 4.0f)));
      EXPECT_TRUE(exchange.means()[2].tensor.equal(at::zeros({3})));
    }
    group[rank]->close();
  });
}

// Differences of models, say: no gradients, given in any order, and not all of them in every step.
TEST(Exchange, AveragesWhateverTensorsItIsGiven) {
  auto group = collectives::in_process_group(3);
  run_ranks(3, [&](std::uint32_t rank) {
    const std::vector<NamedTensor> tensors{{"first", at::zeros({4, 4})}, {"second", at::zeros({5})}};
    Exchange exchange(tensors, compression("none"), *group[rank], {.values = "difference", .bucket_sizes = {1, 1}});
    const auto own = static_cast<float>(rank);
    exchange.begin({.number = 0});
    exchange.give(0, at::full({4, 4}, own));
    exchange.give(1, at::full({5}, 10 * own));
    ASSERT_TRUE(exchange.finish());
    EXPECT_TRUE(exchange.means()[0].tensor.equal(at::full({4, 4}, 1.0f)));
    EXPECT_TRUE(exchange.means()[1].tensor.equal(at::full({5}, 10.0f)));

    exchange.begin({.number = 1});
    if (rank == 2) exchange.give(1, at::full({5}, 6.0f));
    ASSERT_TRUE(exchange.finish());
    EXPECT_TRUE(exchange.means()[0].tensor.equal(at::zeros({4, 4})));
    EXPECT_TRUE(exchange.means()[1].tensor.equal(at::full({5}, 2.0f)));

    exchange.begin({.number = 2});
    exchange.give(0, at::full({4, 4}, NAN));
    const auto agreed = exchange.finish();
    ASSERT_FALSE(agreed);
    EXPECT_NE(agreed.error().message().find("difference of first"), std::string::npos) << agreed.error().message();
    group[rank]->close();
  });
}

TEST(Exchange, WhatACompressorKeepsIsAveraged) {
  auto group = collectives::in_process_group(2);
  run_ranks(2, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression("topk", {{"ratio", 0.95}}), *group[rank], {});
    GradientTrigger gradients(exchange, net.parameters());
    gradients.begin({});
    at::full({1, 4}, static_cast<float>(rank + 1)).mm(net.first).mm(net.second).sum().backward();
    ASSERT_TRUE(gradients.finish());
    EXPECT_TRUE(exchange.means()[0].tensor.allclose(at::full({4, 4}, 3.0f)));
    group[rank]->close();
  });
}

/// The means of one step over the hierarchical topology, on `ranks` ranks of which each host has two.
std::vector<at::Tensor> means_by_hosts(std::uint32_t ranks, const std::string& compressor) {
  auto group = collectives::in_process_group(ranks, 3, {.ranks_per_host = 2});
  std::vector<at::Tensor> means(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression(compressor), *group[rank],
                      {.bucket_sizes = {}, .topology = {.name = "hierarchical"}});
    GradientTrigger gradients(exchange, net.parameters());
    gradients.begin({});
    at::full({1, 4}, static_cast<float>(rank + 1)).mm(net.first).mm(net.second).sum().backward();
    ASSERT_TRUE(gradients.finish());
    means[rank] = exchange.means()[0].tensor.clone();
    EXPECT_FALSE(exchange.means()[0].sparse) << "only leaders know the positions, and all apply it in the same way";
    group[rank]->close();
  });
  return means;
}

// d/d first = (rank + 1) x 2 everywhere: of equal entries top-k with a ratio of 0.01 keeps one of sixteen.
TEST(Exchange, ByHostsOnlyWhatLeavesAHostIsCompressed) {
  const auto together = means_by_hosts(2, "topk");
  for (const auto& mean : together) EXPECT_TRUE(mean.equal(at::full({4, 4}, 3.0f))) << mean;
  const auto apart = means_by_hosts(3, "topk");  // the first two on a host
  for (const auto& mean : apart) {
    EXPECT_EQ(mean.count_nonzero().item<std::int64_t>(), 1) << mean;
    EXPECT_FLOAT_EQ(mean.sum().item<float>(), 4.0f);  // the mean of 2, 4 and 6
  }
}

// What signs are replaced by has another scale than the gradient: all workers on one host must not change it.
TEST(Exchange, ByHostsVotesAreTakenOnASingleHostToo) {
  for (const auto& mean : means_by_hosts(2, "signsgd")) EXPECT_TRUE(mean.equal(at::ones({4, 4}))) << mean;
}

/// Trains on sums of squares, so that gradients follow the weights.
at::Tensor loss_of(const Net& net, std::uint32_t rank, std::uint64_t step) {
  const auto scale = static_cast<float>(rank + 1) * 0.1f + static_cast<float>(step) * 0.01f;
  const auto input = at::arange(1, 5, at::kFloat).reshape({1, 4}) * scale;
  return (input.mm(net.first).mm(net.second) + net.unused.sum()).pow(2).sum();
}

TEST(Exchange, GoesDenseAtTheBeginningOfAWarmup) {
  constexpr std::uint32_t ranks = 3;
  constexpr float rate = 0.01f;
  const nlohmann::json params = {{"ratio", 0.2}, {"min_kept", 1}, {"warmup_epochs", 1}, {"warmup_dense", 0.5}};
  const nlohmann::json none;
  auto group = collectives::in_process_group(ranks);
  // The same in one process: momentum SGD on the mean of the gradients.
  const Net plain(0.5f);
  std::vector<at::Tensor> momenta;
  std::vector<std::vector<at::Tensor>> expected;
  for (const auto& [name, tensor] : plain.parameters()) momenta.push_back(at::zeros(tensor.sizes()));
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (const auto& [name, tensor] : plain.parameters()) at::Tensor(tensor).mutable_grad() = at::zeros(tensor.sizes());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) (loss_of(plain, rank, step) / 3).backward();
    expected.emplace_back();
    for (std::size_t p = 0; p < momenta.size(); ++p) {
      auto tensor = plain.parameters()[p].tensor;
      momenta[p] = momenta[p] * 0.9f + tensor.grad();
      expected.back().push_back(momenta[p]);
      const at::NoGradGuard no_grad;
      tensor.add_(momenta[p], -rate);
    }
  }
  std::atomic<std::uint64_t> sent = 0;
  run_ranks(ranks, [&](std::uint32_t rank) {
    const Net net(0.5f);
    auto dgc = compressors::builtin().make(
        {.compressor = "dgc", .params = params, .memory = {}, .memory_params = none, .setting = {.momentum = 0.9}});
    Exchange exchange(net.parameters(), std::move(dgc.value()), *group[rank],
                      {.course = {.epochs = 2}, .bucket_sizes = {.first_bytes = 1, .bytes = 1}});
    GradientTrigger gradients(exchange, net.parameters());
    for (std::uint64_t step = 0; step < 4; ++step) {
      gradients.begin({.number = step, .epoch = 0.1 * static_cast<double>(step)});
      loss_of(net, rank, step).backward();
      const auto agreed = gradients.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
      for (std::size_t p = 0; p < 3; ++p) {
        EXPECT_TRUE(exchange.means()[p].tensor.allclose(expected[step][p], 1e-4, 1e-5)) << step << " " << p;
        const at::NoGradGuard no_grad;
        at::Tensor(net.parameters()[p].tensor).add_(exchange.means()[p].tensor, -rate);
      }
    }
    sent += group[rank]->traffic().sent_bytes;
    // When the warm-up is over: a fifth of 16 and of 8 entries of each rank.
    gradients.begin({.number = 4, .epoch = 1});
    loss_of(net, rank, 4).backward();
    ASSERT_TRUE(gradients.finish());
    EXPECT_LE(exchange.means()[0].tensor.count_nonzero().item<std::int64_t>(), 3 * 4);
    EXPECT_LE(exchange.means()[1].tensor.count_nonzero().item<std::int64_t>(), 3 * 2);
    group[rank]->close();
  });
  constexpr std::size_t entries = 16 + 8 + 3 + 1;  // with the vote
  // In a step: the matrices around a ring, the vector with the vote up and down two trees of a message an edge.
  constexpr std::size_t messages = 2 * (2 * (ranks - 1) * ranks) + 2 * (2 * (ranks - 1));
  EXPECT_EQ(sent,
            4 * (2 * (ranks - 1) * entries * sizeof(float) + messages * collectives::Communicator::wire_bytes(0)));
}

TEST(Exchange, TensorsOfABucketGoDenseOrNotEachOnItsOwn) {
  // Of the smaller tensor one entry of 8 is sent with 64 bits, 8 bits an entry; of the larger one of 16, 4 bits.
  constexpr std::uint32_t ranks = 9;
  auto group = collectives::in_process_group(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression("topk", {{"ratio", 0.01}, {"index_codec", "raw32"}}), *group[rank],
                      {});
    GradientTrigger gradients(exchange, net.parameters());
    ASSERT_EQ(exchange.buckets().size(), 2u);
    gradients.begin({});
    at::tensor({1.0f, 2.0f, 4.0f, 3.0f}).reshape({1, 4}).mm(net.first).mm(net.second).sum().backward();
    ASSERT_TRUE(gradients.finish());
    EXPECT_EQ(exchange.means()[0].tensor.count_nonzero().item<std::int64_t>(), 1);
    EXPECT_TRUE(exchange.means()[1].tensor.allclose(at::full({4, 2}, 10.0f)));
    group[rank]->close();
  });
}

TEST(Exchange, ASignMethodMovesABiasByTheLearningRate) {
  for (const std::string name : {"signsgd", "signum", "demo"}) {
    auto group = collectives::in_process_group(3);
    run_ranks(3, [&](std::uint32_t rank) {
      const auto weight = at::full({2, 2}, 0.5f).set_requires_grad(true);
      const auto bias = at::tensor({0.25f, -0.5f}).set_requires_grad(true);
      auto memory = name == "demo" ? "residual" : "none";
      const nlohmann::json none;
      auto made = compressors::builtin().make(
          {.compressor = name, .params = none, .memory = memory, .memory_params = none, .setting = {}});
      Exchange exchange({{"weight", weight}, {"bias", bias}}, std::move(made.value()), *group[rank], {});
      GradientTrigger gradients(exchange, {{"weight", weight}, {"bias", bias}});
      gradients.begin({});
      // The gradient of the bias is (300, -0.002) on every rank.
      const auto input = at::full({1, 2}, static_cast<float>(rank + 1));
      ((input.mm(weight) + bias) * at::tensor({300.0f, -0.002f})).sum().backward();
      ASSERT_TRUE(gradients.finish());
      EXPECT_TRUE(exchange.means()[1].tensor.equal(at::tensor({1.0f, -1.0f}))) << name << exchange.means()[1].tensor;
      Sgd sgd({.momentum = 0, .nesterov = false, .weight_decay = 0},
              {.parameters = {{"weight", weight}, {"bias", bias}}, .momentum_owner = MomentumOwner::method});
      sgd.step(exchange.means(), 0.125);
      EXPECT_TRUE(bias.equal(at::tensor({0.125f, -0.375f}))) << name << bias;
      group[rank]->close();
    });
  }
}

TEST(Exchange, SumsInSixteenBitsWhereTheCompressorSaysSo) {
  for (const std::string name : {"fp16", "bf16"}) {
    auto group = collectives::in_process_group(3);
    run_ranks(3, [&](std::uint32_t rank) {
      const Net net(1.0f);
      Exchange exchange(net.parameters(), compression(name), *group[rank], {});
      GradientTrigger gradients(exchange, net.parameters());
      gradients.begin({});
      // Row i of the first layer's gradient is twice input i: a third of 0.2, 4 and 6.002 is rounded. The sum of three
      // times 40000 would be more than fp16 has, their mean is not.
      const auto input = at::tensor({0.1f, 2.0f, 3.001f, 20000.0f}).reshape({1, 4});
      input.mm(net.first).mm(net.second).sum().backward();
      const auto agreed = gradients.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
      const auto type = name == "fp16" ? at::kHalf : at::kBFloat16;
      const auto once = (2 * input * (1.0f / 3)).reshape({4, 1}).expand({4, 4}).to(type).to(at::kFloat);
      auto mean = (once + once).to(type).to(at::kFloat);
      mean = (mean + once).to(type).to(at::kFloat);
      EXPECT_TRUE(exchange.means()[0].tensor.equal(mean)) << name << exchange.means()[0].tensor;
      EXPECT_TRUE(exchange.means()[0].tensor[3].allclose(at::full({4}, 40000.0f), 1e-2)) << name;
      group[rank]->close();
    });
  }
}

/// A residual takes off what this rank has sent, in the gradient's own units, although a third of it went over the
/// wire.
TEST(Exchange, AResidualOfSixteenBitSumsIsThatOfTheOwnGradient) {
  for (const std::string name : {"fp16", "bf16", "randomk"}) {
    auto group = collectives::in_process_group(3);
    run_ranks(3, [&](std::uint32_t rank) {
      const Net net(1.0f);
      const nlohmann::json params =
          name == "randomk" ? nlohmann::json{{"ratio", 1.0}, {"value_codec", "fp16"}} : nlohmann::json();
      const nlohmann::json none;
      auto made =
          compressors::builtin()
              .make({.compressor = name, .params = params, .memory = "residual", .memory_params = none, .setting = {}})
              .value();
      Exchange exchange(net.parameters(), std::move(made), *group[rank], {});
      GradientTrigger gradients(exchange, net.parameters());
      gradients.begin({});
      at::full({1, 4}, static_cast<float>(rank + 1)).mm(net.first).mm(net.second).sum().backward();
      ASSERT_TRUE(gradients.finish());
      // The gradient of the first layer is twice the input: 2, 4 and 6 on the three ranks.
      EXPECT_TRUE(exchange.means()[0].tensor.allclose(at::full({4, 4}, 4.0f), 1e-2)) << name;
      const auto state = exchange.compression().memory->save();
      ASSERT_FALSE(state.empty());
      for (const auto& left : state) EXPECT_LT(left.tensor.abs().max().item<float>(), 0.05f) << name << left.name;
      group[rank]->close();
    });
  }
}

TEST(Exchange, SharesTheLargestScaleOfAllRanks) {
  auto group = collectives::in_process_group(3);
  run_ranks(3, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression("terngrad", {{"clip", 0}}), *group[rank],
                      {.seed = 5, .bucket_sizes = {.first_bytes = 1 << 20}});
    GradientTrigger gradients(exchange, net.parameters());
    at::Tensor sum = at::zeros({4, 4});
    constexpr std::uint64_t steps = 300;
    for (std::uint64_t step = 0; step < steps; ++step) {
      gradients.begin({.number = step});
      at::full({1, 4}, static_cast<float>(rank + 1)).mm(net.first).mm(net.second).sum().backward();
      ASSERT_TRUE(gradients.finish());
      // Rank r has 2 (r + 1) everywhere: every rank sends zero or 6, a third of each is the mean.
      const auto levels = exchange.means()[0].tensor / 2;
      EXPECT_TRUE(levels.allclose(levels.round(), 0, 1e-5)) << levels;
      sum += exchange.means()[0].tensor / static_cast<double>(steps);
    }
    EXPECT_NEAR(sum.mean().item<float>(), 4.0f, 0.15f);
    group[rank]->close();
  });
}

TEST(Exchange, AGradientThatIsNotANumberIsAnErrorThatNamesTheParameter) {
  for (const auto* name : {"none", "topk", "dgc", "fp16", "bf16"}) {
    auto group = collectives::in_process_group(1);
    const Net net(1.0f);
    const auto bias = at::ones({2}).set_requires_grad(true);
    auto parameters = net.parameters();
    parameters.push_back({"bias", bias});
    for (const auto* culprit : {"second", "bias"}) {
      Exchange exchange(parameters, compression(name), *group[0], {});
      GradientTrigger gradients(exchange, parameters);
      gradients.begin({});
      auto out = at::ones({1, 4}).mm(net.first).mm(net.second);
      const auto bad = std::numeric_limits<float>::quiet_NaN();
      (culprit == std::string("bias") ? out + bias * bad : out * bad).sum().backward();
      const auto agreed = gradients.finish();
      ASSERT_FALSE(agreed) << name;
      EXPECT_EQ(agreed.error().code, Errc::invalid_argument);
      EXPECT_THAT(agreed.error().message(), ::testing::HasSubstr(std::string("gradient of ") + culprit)) << name;
    }
    group[0]->close();
  }
}

/// Waits for the first message to go out; the limit is only a guard.
bool wait_for_traffic(const collectives::Fabric& fabric) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (fabric.traffic().sent_bytes == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return fabric.traffic().sent_bytes > 0;
}

TEST(Exchange, BeginsBeforeTheBackwardPassHasReachedTheFirstLayer) {
  auto group = collectives::in_process_group(2);
  run_ranks(2, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange({{"first", net.first}, {"second", net.second}}, compression("none"), *group[rank],
                      {.bucket_sizes = {.first_bytes = 1, .bytes = 1}});
    GradientTrigger gradients(exchange, {{"first", net.first}, {"second", net.second}});
    gradients.begin({});
    const auto hidden = at::ones({1, 4}).mm(net.first);
    bool overlapped = false;
    // Runs in the backward pass after the second layer's gradient is complete and before the first layer's is made.
    hidden.register_hook([&](const at::Tensor& gradient) {
      EXPECT_FALSE(net.first.grad().defined());
      overlapped = wait_for_traffic(*group[rank]);
      return gradient;
    });
    hidden.mm(net.second).sum().backward();
    EXPECT_TRUE(overlapped);
    ASSERT_TRUE(gradients.finish());
    group[rank]->close();
  });
}

/// Waits until the loop and the codec thread have done what they were asked for by now, if anything.
void let_pass(collectives::Fabric& fabric) {
  for (int i = 0; i < 1000; ++i) fabric.thread().call([] {});
}

TEST(Exchange, GradientsOfSeveralBackwardPassesAddUpAndOnlyTheLastPassStartsTheExchange) {
  auto group = collectives::in_process_group(2);
  run_ranks(2, [&](std::uint32_t rank) {
    const Net net(1.0f);
    Exchange exchange(net.parameters(), compression("none"), *group[rank], {.bucket_sizes = {1, 1}});
    GradientTrigger gradients(exchange, net.parameters());
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto before = group[rank]->traffic().sent_bytes;
      // The third parameter has a gradient in the first pass alone, the second one in the first and the last.
      (at::full({1, 4}, static_cast<float>(rank)).mm(net.first).mm(net.second).sum() + net.unused.sum()).backward();
      at::full({1, 4}, 3.0f).mm(net.first).sum().backward();
      let_pass(*group[rank]);
      EXPECT_EQ(group[rank]->traffic().sent_bytes, before) << "in step " << step;
      gradients.begin({.number = step, .vote = 1});
      at::full({1, 4}, 10.0f).mm(net.first).mm(net.second).sum().backward();
      const auto agreed = gradients.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
      EXPECT_EQ(agreed->votes, 2.0f);
      // Of ranks 0 and 1: 2 x 0 and 2 x 1, and on each 3 and 2 x 10.
      EXPECT_TRUE(exchange.means()[0].tensor.equal(at::full({4, 4}, 24.0f))) << exchange.means()[0].tensor;
      EXPECT_TRUE(exchange.means()[1].tensor.equal(at::full({4, 2}, 42.0f))) << exchange.means()[1].tensor;
      EXPECT_TRUE(exchange.means()[2].tensor.equal(at::ones({3}))) << exchange.means()[2].tensor;
    }
    group[rank]->close();
  });
}

TEST(Exchange, ABucketIsExchangedOnceInAStepOfSeveralBackwardPasses) {
  for (const auto* name : {"none", "topk"}) {
    auto group = collectives::in_process_group(2);
    run_ranks(2, [&](std::uint32_t rank) {
      const Net net(1.0f);
      Exchange exchange(net.parameters(), compression(name), *group[rank], {.bucket_sizes = {1, 1}});
      GradientTrigger gradients(exchange, net.parameters());
      std::uint64_t sent_in_step = 0;
      for (std::uint64_t step = 0; step < 4; ++step) {
        const auto before = group[rank]->traffic().sent_bytes;
        for (std::uint64_t pass = 0; pass <= step; ++pass) {
          if (pass == step) gradients.begin({.number = step});
          at::ones({1, 4}).mm(net.first).mm(net.second).sum().backward();
        }
        ASSERT_TRUE(gradients.finish());
        std::vector<int> encoded(exchange.buckets().size());
        std::vector<int> sent(exchange.buckets().size());
        for (const auto& span : exchange.trace().timeline().spans) {
          encoded[span.bucket] += span.activity == protocol::Activity::encode;
          sent[span.bucket] += span.activity == protocol::Activity::wire;
        }
        EXPECT_THAT(encoded, ::testing::Each(1)) << name << " " << step;
        EXPECT_THAT(sent, ::testing::Each(1)) << name << " " << step;
        const auto moved = group[rank]->traffic().sent_bytes - before;
        if (step > 0) {
          EXPECT_EQ(moved, sent_in_step) << name << " " << step;
        }
        sent_in_step = moved;
      }
      group[rank]->close();
    });
  }
}

TEST(Exchange, AGradientThatIsNoNumberIsNamed) {
  auto group = collectives::in_process_group(1);
  const Net net(1.0f);
  Exchange exchange(net.parameters(), compression("topk", {{"ratio", 0.5}}), *group[0], {});
  GradientTrigger gradients(exchange, net.parameters());
  gradients.begin({});
  at::full({1, 4}, NAN).mm(net.first).mm(net.second).sum().backward();
  const auto agreed = gradients.finish();
  ASSERT_FALSE(agreed);
  EXPECT_NE(agreed.error().context.find("gradient of second"), std::string::npos) << agreed.error().context;
}

}  // namespace
}  // namespace weir::training
