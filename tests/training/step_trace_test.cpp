#include "training/exchange/step_trace.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ranks.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"

namespace weir::training {
namespace {

using protocol::Activity;
using protocol::ByteCounts;
using protocol::StepTimeline;
using protocol::TrafficTotals;

constexpr std::uint32_t ranks = 3;
constexpr std::uint64_t steps = 4;

/// What one rank has noted after all steps, and what its sockets have counted.
struct Noted {
  TrafficTotals totals;
  StepTimeline timeline;  ///< of the last step
  ByteCounts before;      ///< all phases before the last step
  ByteCounts counted;
  std::vector<Bucket> buckets;
};

struct Case {
  std::string compressor;
  nlohmann::json params;
  std::size_t tensors = 4;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.compressor + "_" + std::to_string(info.param.tensors);
}

ByteCounts sum(const std::vector<protocol::NamedTraffic>& list) {
  ByteCounts all;
  for (const auto& one : list) all += one.bytes;
  return all;
}

ByteCounts sum_of_links(const TrafficTotals& totals) {
  ByteCounts all;
  for (const auto& link : totals.links) all += link.bytes;
  return all;
}

ByteCounts without_other(const TrafficTotals& totals) {
  ByteCounts all = sum(totals.phases);
  for (const auto& phase : totals.phases) {
    if (phase.name == "other") all = {all.sent - phase.bytes.sent, all.received - phase.bytes.received};
  }
  return all;
}

compressors::Compression compression(const Case& of) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = of.compressor, .params = of.params, .memory = {}, .memory_params = none, .setting = {}})
      .value();
}

std::vector<Noted> exchange_steps(const Case& of) {
  std::vector<Noted> noted(ranks);
  auto group = testing::tcp_group(ranks);
  std::barrier together(ranks);
  testing::run_ranks(ranks, [&](std::uint32_t rank) {
    std::vector<NamedTensor> parameters;
    for (std::size_t i = 0; i < of.tensors; ++i) {
      const std::int64_t rows = i == 48 ? 400 : 20 + static_cast<std::int64_t>(i);
      const auto shape = i % 2 == 0 ? std::vector<std::int64_t>{rows, 30} : std::vector<std::int64_t>{rows};
      parameters.push_back({"p" + std::to_string(i), at::ones(shape).set_requires_grad(true)});
    }
    Exchange exchange(parameters, compression(of), *group[rank], {.bucket_sizes = {1 << 10, 1 << 12}});
    GradientTrigger gradients(exchange, parameters);
    for (std::uint64_t step = 0; step < steps; ++step) {
      noted[rank].before = without_other(totals_of(*group[rank], &exchange.trace()));
      gradients.begin({.number = step});
      const at::Generator random = testing::generator(rank);
      at::Tensor loss = at::zeros({});
      for (const auto& [name, tensor] : parameters) loss = loss + (tensor * torch::randn(tensor.sizes(), random)).sum();
      loss.backward();
      const auto agreed = gradients.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
    }
    together.arrive_and_wait();
    const auto traffic = group[rank]->traffic();
    noted[rank].counted = {traffic.sent_bytes, traffic.received_bytes};
    noted[rank].totals = totals_of(*group[rank], &exchange.trace());
    noted[rank].timeline = exchange.trace().timeline();
    noted[rank].buckets.assign(exchange.buckets().begin(), exchange.buckets().end());
    together.arrive_and_wait();  // goodbyes are counted too
    group[rank]->close();
  });
  return noted;
}

class TracedExchange : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, TracedExchange,
                         ::testing::Values(Case{"none", nullptr}, Case{"fp16", nullptr}, Case{"topk", {{"ratio", 0.1}}},
                                           Case{"powersgd", {{"rank", 2}, {"start_step", 0}}},
                                           Case{"none", nullptr, 50}),
                         name_of);

TEST_P(TracedExchange, AddsUpToTheSockets) {
  const auto noted = exchange_steps(GetParam());
  for (const auto& [totals, timeline, before, counted, buckets] : noted) {
    EXPECT_GT(counted.sent, 0U);
    EXPECT_EQ(sum_of_links(totals), counted);
    EXPECT_EQ(sum(totals.phases), counted);
    ByteCounts tensors = sum(totals.tensors);
    tensors += totals.rest;
    EXPECT_EQ(tensors, without_other(totals));
  }
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (const auto& link : noted[a].totals.links) {
      const auto& back = noted[link.rank].totals.links;
      const auto found = std::ranges::find(back, a, &protocol::LinkTraffic::rank);
      ASSERT_NE(found, back.end());
      EXPECT_EQ(link.bytes.sent, found->bytes.received) << "from " << a << " to " << link.rank;
    }
  }
}

TEST_P(TracedExchange, ShowsWhatEachBucketDid) {
  for (const auto& [totals, timeline, before, counted, buckets] : exchange_steps(GetParam())) {
    std::map<std::uint32_t, std::set<Activity>> seen;
    ByteCounts moved;
    for (const auto& span : timeline.spans) {
      seen[span.bucket].insert(span.activity);
      EXPECT_GE(span.begin_seconds, 0);
      EXPECT_GE(span.seconds, 0);
      EXPECT_TRUE(span.activity == Activity::wire || span.bytes == ByteCounts());
      moved += span.bytes;
    }
    EXPECT_EQ(seen.size(), buckets.size());
    for (const auto& [bucket, activities] : seen) EXPECT_EQ(activities.size(), 4U) << "bucket " << bucket;
    EXPECT_EQ(timeline.dropped, 0U);
    moved += before;
    EXPECT_EQ(moved, without_other(totals)) << "the last step's spans have the last step's bytes";
  }
}

TEST_P(TracedExchange, OneMessageIsOnALaneAtATime) {
  for (const auto& noted : exchange_steps(GetParam())) {
    std::map<std::uint32_t, std::vector<protocol::BucketSpan>> by_lane;
    for (const auto& span : noted.timeline.spans) {
      if (span.activity == Activity::wire) by_lane[span.lane].push_back(span);
    }
    for (auto& [lane, spans] : by_lane) {
      std::ranges::sort(spans, {}, &protocol::BucketSpan::begin_seconds);
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_LE(spans[i - 1].begin_seconds + spans[i - 1].seconds, spans[i].begin_seconds) << "lane " << lane;
      }
    }
  }
}

TEST(StepTrace, CountsFromWhereTheStepBeganBeforeItsLastBackwardPass) {
  auto group = collectives::in_process_group(1);
  const auto weight = at::ones({4, 4}).set_requires_grad(true);
  Exchange exchange({{"weight", weight}}, compression({"none", nullptr}), *group[0], {});
  GradientTrigger gradients(exchange, {{"weight", weight}});
  constexpr double earlier_passes = 100;  // seconds
  gradients.begin({.begin = std::chrono::steady_clock::now() - std::chrono::seconds(100)});
  weight.sum().backward();
  ASSERT_TRUE(gradients.finish());
  const auto timeline = exchange.trace().timeline();
  ASSERT_FALSE(timeline.spans.empty());
  for (const auto& span : timeline.spans) EXPECT_GE(span.begin_seconds, earlier_passes);
  group[0]->close();
}

/// As in the last step of diloco with fragments: each is exchanged after the one before.
TEST(StepTrace, KeepsAllExchangesOfAStep) {
  auto group = collectives::in_process_group(1);
  const std::vector<NamedTensor> parameters{{"a", at::ones({2})}, {"b", at::ones({2})}};
  StepTrace trace(*group[0], parameters, 2);
  const auto start = std::chrono::steady_clock::now();
  for (const std::size_t bucket : {0, 1}) {
    trace.begin(start);
    { const StepTrace::Span span(trace, bucket, Activity::encode, 0); }
  }
  const auto timeline = trace.timeline();
  ASSERT_EQ(timeline.spans.size(), 2U);
  EXPECT_EQ(timeline.spans[0].bucket, 0U);
  EXPECT_EQ(timeline.spans[1].bucket, 1U);
  EXPECT_EQ(trace.times().encode, timeline.spans[1].seconds) << "modes add these up themselves";
  trace.begin(start + std::chrono::seconds(1));
  EXPECT_TRUE(trace.timeline().spans.empty());
  group[0]->close();
}

TEST(StepTrace, NamesTheTensorsWithMostBytes) {
  const auto noted = exchange_steps({"none", nullptr, 50});
  const auto& totals = noted.front().totals;
  ASSERT_EQ(totals.tensors.size(), TrafficTotals::tensors_max);
  EXPECT_EQ(totals.tensors.front().name, "p48") << "the largest one by far";
  EXPECT_TRUE(std::ranges::is_sorted(totals.tensors, std::ranges::greater(),
                                     [](const auto& tensor) { return tensor.bytes.sent + tensor.bytes.received; }));
  EXPECT_GT(totals.rest.sent, 0U);
  const protocol::TrafficReport report{.totals = totals, .sampled = noted.front().timeline, .slowest = {}, .plans = {}};
  EXPECT_TRUE(protocol::check(report, 0, ranks));
}

TEST(StepTrace, PutsPassesAndWhatIsNotCodedIntoDifferentPhases) {
  const auto noted = exchange_steps({"powersgd", {{"rank", 2}, {"start_step", 0}}});
  std::vector<std::string> names;
  for (const auto& phase : noted.front().totals.phases) names.push_back(phase.name);
  EXPECT_EQ(names, (std::vector<std::string>{"dense", "pass 1", "pass 2", "other"}));
}

}  // namespace
}  // namespace weir::training
