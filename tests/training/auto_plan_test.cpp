#include "training/exchange/auto_plan.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <regex>
#include <vector>

#include "compressors/memories/tensor_store.hpp"
#include "ranks.hpp"
#include "training/exchange/coding_probe.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/exchange/owner.hpp"

namespace weir::training::testing {
namespace {

struct Case {
  const char* compressor;
  nlohmann::json params;
  std::uint32_t ranks = 3;
  std::uint32_t ranks_per_host = 1;
  std::optional<GroupLinks> links = {};  ///< instead of measuring them
  std::optional<GroupLinks> links_of_rank_1 = {};
  BucketSizes bucket_sizes = {};
};

compressors::Compression compression(const Case& of) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = of.compressor,
             .params = of.params,
             .memory = {},
             .memory_params = none,
             .setting = {.momentum = 0.9F, .nesterov = false}})
      .value();
}

std::vector<NamedTensor> leaves() {
  return {{"a", at::ones({300, 70}).set_requires_grad(true)},
          {"b", at::ones({40}).set_requires_grad(true)},
          {"c", at::ones({64, 3, 5, 5}).set_requires_grad(true)},
          {"d", at::ones({64, 64}).set_requires_grad(true)},
          {"e", at::ones({64, 64}).set_requires_grad(true)}};
}

/// Of a parameter on a rank: each rank has its large entries elsewhere.
at::Tensor gradient(const at::Tensor& parameter, std::uint32_t rank) {
  const at::Tensor values = at::linspace(-1, 1, parameter.numel()).mul(rank + 1.0);
  return values.roll(rank * parameter.numel() / 5).view(parameter.sizes());
}

/// What a rank had.
struct Outcome {
  std::vector<std::vector<at::Tensor>> means;  ///< by step
  std::vector<protocol::ExchangePlan> plans;
  std::vector<NamedTensor> state;
  std::vector<NamedTensor> memory;
  std::vector<at::Tensor> unsent;  ///< by parameter: in the memory
  protocol::TrafficTotals totals;
  std::uint64_t dense_bytes = 0;  ///< of a step
  std::string failure;
};

Outcome train(const Case& of, collectives::Fabric& fabric, std::uint64_t steps, const Outcome* before = nullptr) {
  Outcome outcome;
  auto parameters = leaves();
  Exchange::Options options{
      .seed = 5, .course = {.epochs = 4}, .bucket_sizes = of.bucket_sizes, .topology = {.name = "auto"}};
  options.make_compression = [&of] { return compression(of); };
  const auto links = fabric.rank() == 1 && of.links_of_rank_1 ? of.links_of_rank_1 : of.links;
  if (links) options.measure_links = [links](collectives::Fabric&) { return *links; };
  Exchange exchange(parameters, compression(of), fabric, options);
  GradientTrigger gradients(exchange, parameters);
  if (before != nullptr) {
    auto restored = exchange.compression().memory->restore(before->memory);
    if (restored) restored = exchange.restore(before->state);
    if (!restored) {
      outcome.failure = restored.error().message();
      return outcome;
    }
  }
  for (std::uint64_t step = 0; step < steps; ++step) {
    gradients.begin({.number = step, .epoch = static_cast<double>(step) / 20, .learning_rate = 0.1, .vote = 1});
    at::Tensor loss = at::zeros({});
    for (auto& [name, tensor] : parameters) loss = loss + (tensor * gradient(tensor, fabric.rank())).sum();
    loss.backward();
    const auto agreed = gradients.finish();
    if (!agreed) {
      outcome.failure = agreed.error().message();
      return outcome;
    }
    EXPECT_EQ(agreed->votes, static_cast<float>(fabric.size()));
    auto& means = outcome.means.emplace_back();
    for (const Mean& mean : exchange.means()) means.push_back(mean.tensor.clone());
    if (auto plan = exchange.new_plan()) outcome.plans.push_back(std::move(*plan));
  }
  for (const auto& [name, tensor] : exchange.save()) outcome.state.push_back({name, tensor.clone()});
  for (const auto& [name, tensor] : exchange.compression().memory->save()) {
    outcome.memory.push_back({name, tensor.clone()});
  }
  outcome.totals = totals_of(fabric, &exchange.trace());
  outcome.dense_bytes = exchange.dense_bytes_per_step();
  auto* const unsent = exchange.compression().memory->unsent();
  for (std::uint32_t p = 0; unsent != nullptr && p < parameters.size(); ++p) {
    const compressors::Round round{.tensor = p};
    outcome.unsent.push_back(unsent->of(round, parameters[p].tensor.sizes()).value().clone());
  }
  return outcome;
}

std::vector<Outcome> train_all(const Case& of, std::uint64_t steps, const std::vector<Outcome>& before = {}) {
  auto group = collectives::in_process_group(of.ranks, 3, {.ranks_per_host = of.ranks_per_host});
  std::vector<Outcome> outcomes(of.ranks);
  run_ranks(of.ranks, [&](std::uint32_t rank) {
    outcomes[rank] = train(of, *group[rank], steps, before.empty() ? nullptr : &before[rank]);
    group[rank]->close();
  });
  return outcomes;
}

class AutoPlanOf : public ::testing::TestWithParam<Case> {};

TEST(CodingProbe, MeasuresEveryCompressorOnAnyRank) {
  const std::vector<NamedTensor> tensors{{"weight", at::zeros({64, 48})}, {"bias", at::zeros({48})}};
  for (const auto& entry : compressors::builtin().compressors()) {
    for (const std::uint32_t rank : {0u, 3u}) {
      for (const std::uint64_t step : {0u, 7u}) {
        const std::string name(entry.name);
        auto made = compression({.compressor = name.c_str(), .params = {}});
        const auto loads = measure_coding(made, tensors, {.step = step, .epoch = 100, .rank = rank, .world = 4});
        EXPECT_TRUE(loads) << entry.name << ": " << loads.error().message();
      }
    }
  }
}

// Larger tensors than 2^22 entries are measured by their first rows: one factor has as many rows as these, and
// the other one as many as the tensor has columns.
TEST(CodingProbe, FactorsOfALargeMatrixAreAsLongAsThoseOfTheWholeOne) {
  const std::vector<NamedTensor> tensors{{"weight", at::zeros({1 << 10, 1 << 14})}};
  auto powersgd = compression({.compressor = "powersgd", .params = {{"rank", 2}, {"start_step", 0}}});
  const auto loads = measure_coding(powersgd, tensors, {.epoch = 100, .world = 4}).value();
  double bytes = 0;
  for (const PassLoad& pass : loads.front().by_all.passes) bytes += pass.bytes;
  EXPECT_DOUBLE_EQ(bytes, ((1 << 10) + (1 << 14)) * 2 * sizeof(float));
}

TEST(CodingProbe, ATensorThatIsTooMuchForAllToGatherMayGoByOwners) {
  const auto qsgd = compression({.compressor = "qsgd", .params = {}});
  const CodedLoad encoded{.passes = {{.bytes = 20'000}}};
  const auto few = load_of(*qsgd.compressor, {300, 70}, {.epoch = 1e6, .world = 2}, encoded);
  EXPECT_EQ(few.by_all, encoded);
  const auto many = load_of(*qsgd.compressor, {300, 70}, {.epoch = 1e6, .world = 64}, encoded);
  EXPECT_TRUE(many.coded);
  EXPECT_EQ(many.dense_bytes, 84'000);
  EXPECT_EQ(many.by_all.left_dense_bytes, 84'000);
  EXPECT_TRUE(many.by_all.passes.empty());
  EXPECT_EQ(many.by_owners, encoded);
}

// 200 steps: the first plan by the model, up to six trials of ten steps each and two windows of 64, between which all
// is measured again in a warm-up.
TEST_P(AutoPlanOf, AllRanksFollowTheSamePlansAndHaveTheSameMeans) {
  const auto outcomes = train_all(GetParam(), 200);
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.failure, "");
    ASSERT_EQ(outcome.means.size(), 200u);
    for (std::size_t step = 0; step < outcome.means.size(); ++step) {
      for (std::size_t p = 0; p < outcome.means[step].size(); ++p) {
        ASSERT_TRUE(outcome.means[step][p].equal(outcomes[0].means[step][p])) << "step " << step << ", tensor " << p;
      }
    }
    ASSERT_EQ(outcome.plans.size(), outcomes[0].plans.size());
    ASSERT_GE(outcome.plans.size(), 2u);
    for (std::size_t i = 0; i < outcome.plans.size(); ++i) {
      const auto& plan = outcome.plans[i];
      EXPECT_EQ(plan.step, outcomes[0].plans[i].step);
      EXPECT_EQ(plan.reason, outcomes[0].plans[i].reason);
      EXPECT_FALSE(plan.candidates.empty());
      ASSERT_EQ(plan.buckets.size(), outcomes[0].plans[i].buckets.size());
      for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
        EXPECT_EQ(plan.buckets[b].form, outcomes[0].plans[i].buckets[b].form);
        EXPECT_EQ(plan.buckets[b].topology, outcomes[0].plans[i].buckets[b].topology);
      }
    }
    EXPECT_EQ(outcome.plans.front().step, 0u);
  }
}

// The residuals of owners belong to shares of buckets: these must be the same again.
TEST_P(AutoPlanOf, GoesOnFromItsState) {
  const auto first = train_all(GetParam(), 30);
  for (const Outcome& outcome : first) ASSERT_EQ(outcome.failure, "");
  const auto second = train_all(GetParam(), 30, first);
  for (const Outcome& outcome : second) ASSERT_EQ(outcome.failure, "");
  ASSERT_FALSE(first[0].plans.empty());
  EXPECT_EQ(second[0].plans.front().buckets.size(), first[0].plans.back().buckets.size());
}

/// Hosts of two ranks each, with next to no bandwidth between them: what coding takes does not matter.
Case on_far_hosts(const char* compressor, std::uint32_t hosts) {
  return {.compressor = compressor,
          .params = nlohmann::json::object(),
          .ranks = 2 * hosts,
          .ranks_per_host = 2,
          .links = GroupLinks{
              .links = {.latency_seconds = 1, .seconds_per_byte = 1},
              .hosts = {.count = hosts,
                        .ranks_max = 2,
                        .ends_max = 1,
                        .links = {.latency_seconds = 1e-6, .seconds_per_byte = 1e-9, .combine_seconds_per_byte = 0}}}};
}

void expect_same_means(const std::vector<Outcome>& outcomes, std::size_t steps) {
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.failure, "");
    ASSERT_EQ(outcome.means.size(), steps);
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::size_t p = 0; p < outcome.means[step].size(); ++p) {
        ASSERT_TRUE(outcome.means[step][p].equal(outcomes[0].means[step][p])) << "step " << step << ", tensor " << p;
      }
    }
  }
}

TEST(AutoPlan, SumsDenseGradientsWithinHostsWhereTheLinksBetweenThemAreSlow) {
  const auto outcomes = train_all(on_far_hosts("none", 4), 3);
  expect_same_means(outcomes, 3);
  for (const auto& bucket : outcomes[0].plans.front().buckets) EXPECT_EQ(bucket.topology, "hierarchical");
}

TEST(AutoPlan, SendsPayloadsOfHostsByOwnersWhereThereAreMany) {
  const auto outcomes = train_all(on_far_hosts("qsgd", 8), 3);
  expect_same_means(outcomes, 3);
  const auto& bucket = outcomes[0].plans.front().buckets.front();
  EXPECT_EQ(bucket.topology, "two_hop");
  EXPECT_EQ(bucket.form, "coded");
  EXPECT_EQ(outcomes[0].plans.front().buckets.back().topology, "hierarchical");
}

// Each message takes a second to rank 1, and each byte to the others.
TEST(AutoPlan, RanksThatDisagreeAboutThePlansSayWhichOneDiffers) {
  const GroupLinks narrow{.links = {.latency_seconds = 1e-9, .seconds_per_byte = 1}, .hosts = {}};
  const GroupLinks far{.links = {.latency_seconds = 1, .seconds_per_byte = 1e-12}, .hosts = {}};
  const Case of{.compressor = "none", .params = {}, .ranks = 5, .links = narrow, .links_of_rank_1 = far};
  for (const Outcome& outcome : train_all(of, 1)) {
    const std::regex named("the plans of the exchange for bucket \\d+ of rank 1 differ from those of rank 0");
    EXPECT_TRUE(std::regex_search(outcome.failure, named)) << outcome.failure;
  }
}

TEST(AutoPlan, WhatIsMeasuredWithIsOfNoBucket) {
  for (const Outcome& outcome : train_all({"none", nlohmann::json::object()}, 1)) {
    ASSERT_EQ(outcome.failure, "");
    std::uint64_t of_tensors = outcome.totals.rest.sent;
    for (const auto& tensor : outcome.totals.tensors) of_tensors += tensor.bytes.sent;
    EXPECT_GT(of_tensors, 0U);
    EXPECT_LT(of_tensors, 2 * outcome.dense_bytes);
  }
}

/// What all ranks have given of a parameter, as a mean: what they have agreed on, and what memories and owners still
/// have of it.
at::Tensor sent_and_unsent(const std::vector<Outcome>& outcomes, std::uint32_t parameter, const std::string& name) {
  at::Tensor sum = at::zeros_like(outcomes[0].means[0][parameter], at::kDouble);
  for (const auto& means : outcomes[0].means) sum += means[parameter];
  for (const Outcome& outcome : outcomes) {
    sum += outcome.unsent[parameter].to(at::kDouble) / static_cast<double>(outcomes.size());
    const auto owned = Owner::residual_in(outcome.state, name, sum.numel()).value();
    if (owned)
      sum.view(-1).narrow(0, static_cast<std::int64_t>(owned->first_entry), owned->values.numel()) +=
          owned->values.view(-1);
  }
  return sum;
}

/// So slow that it does not matter what coding takes, nor how long a busy machine interrupts it. Each message takes
/// long, so that fewer of them are better.
constexpr LinkCosts costly_messages{.latency_seconds = 1e3, .seconds_per_byte = 1};

// Owners sum what all send.
TEST(AutoPlan, ChangesTheBucketsAndLosesNothing) {
  constexpr std::uint64_t steps = 90;
  const Case of{.compressor = "topk",
                .params = {{"ratio", 0.05}},
                .ranks = 4,
                .links = GroupLinks{.links = costly_messages, .hosts = {}},
                .bucket_sizes = {.first_bytes = 1'000, .bytes = 16'000}};
  const auto outcomes = train_all(of, steps);
  expect_same_means(outcomes, steps);
  const auto& plans = outcomes[0].plans;
  EXPECT_EQ(plans[0].buckets.size(), 5U);
  EXPECT_EQ(plans[0].buckets[0].topology, "two_hop");
  EXPECT_EQ(plans[0].buckets[0].form, "coded");
  EXPECT_EQ(plans[1].buckets.size(), 3U) << plans[1].reason;
  const auto measured = [](const auto& candidate) { return candidate.measured_seconds.has_value(); };
  EXPECT_TRUE(std::ranges::any_of(plans[1].candidates, measured)) << "what the first steps took counts";
  const auto tensors = leaves();
  for (std::uint32_t p = 0; p < tensors.size(); ++p) {
    at::Tensor given = at::zeros(tensors[p].tensor.sizes());
    for (std::uint32_t rank = 0; rank < of.ranks; ++rank)
      given += gradient(tensors[p].tensor, rank) / static_cast<double>(of.ranks);
    const at::Tensor all = sent_and_unsent(outcomes, p, tensors[p].name) / static_cast<double>(steps);
    EXPECT_LT((all - given).abs().max().item<double>(), 1e-4) << tensors[p].name;
  }
}

TEST(AutoPlan, AJobDoesNotGoOnWithBucketsThatWereOnlyOnTrial) {
  const Case of{.compressor = "topk",
                .params = {{"ratio", 0.05}},
                .links = GroupLinks{.links = costly_messages, .hosts = {}},
                .bucket_sizes = {.first_bytes = 1'000, .bytes = 16'000}};
  const auto first = train_all(of, 15);
  expect_same_means(first, 15);
  EXPECT_EQ(first[0].plans.back().buckets.size(), 3U) << first[0].plans.back().reason;
  const auto second = train_all(of, 3, first);
  expect_same_means(second, 3);
  ASSERT_FALSE(second[0].plans.empty());
  EXPECT_EQ(second[0].plans.front().buckets.size(), 5U);
}

// The model knows only slow links, over which next to nothing is sent after the warm-up.
TEST(AutoPlan, IsMadeAnewWhenTheWarmUpIsOver) {
  constexpr std::uint64_t warmup_steps = 40;
  const Case slow_links{.compressor = "dgc",
                        .params = {{"warmup_epochs", 2}},
                        .links = GroupLinks{.links = {.latency_seconds = 1e-3, .seconds_per_byte = 1e-3}, .hosts = {}}};
  const auto outcomes = train_all(slow_links, warmup_steps + 2);
  expect_same_means(outcomes, warmup_steps + 2);
  for (const auto& plan : outcomes[0].plans) {
    if (plan.step >= warmup_steps) continue;
    EXPECT_NE(plan.buckets.front().form, "coded") << plan.reason;
  }
  const auto& last = outcomes[0].plans.back();
  EXPECT_EQ(last.step, warmup_steps);
  EXPECT_EQ(last.buckets.front().form, "coded") << last.reason;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* compressor : {"none", "fp16", "topk", "qsgd", "terngrad", "signsgd", "powersgd"}) {
    all.push_back({compressor, nlohmann::json::object()});
  }
  all.push_back({"dgc", {{"warmup_epochs", 9}}});
  all.push_back({"dgc", {{"warmup_epochs", 2}}, 5, 2});
  all.push_back({"none", nlohmann::json::object(), 4, 2});
  all.push_back({"qsgd", nlohmann::json::object(), 5, 2});
  all.push_back({"qsgd", nlohmann::json::object(), 4, 4});
  all.push_back({"topk", nlohmann::json::object(), 1});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Compressors, AutoPlanOf, ::testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.compressor) + "_" + std::to_string(info.param.ranks) + "_" +
         std::to_string(info.param.ranks_per_host);
});

}  // namespace
}  // namespace weir::training::testing
