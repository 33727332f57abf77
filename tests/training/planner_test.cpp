#include "training/exchange/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "collectives/topologies/catalog.hpp"

namespace weir::training {
namespace {

using collectives::Element;

/// Ten buckets of a megabyte and a small plain one. Encoding takes ten times as long as copying.
Situation situation(std::uint32_t ranks, double latency_seconds, double bytes_per_second, double kept) {
  Situation in{.ranks = ranks,
               .links = {.latency_seconds = latency_seconds,
                         .seconds_per_byte = 1 / bytes_per_second,
                         .combine_seconds_per_byte = 1e-10},
               .buckets = {},
               .compute_seconds = 0.05,
               .dense_seconds_per_byte = 1e-10};
  for (int b = 0; b < 10; ++b) {
    const CodedLoad encoded{.passes = {{.bytes = kept * 1e6}}, .encode_seconds = 1e-3, .decode_seconds = kept * 1e-3};
    in.buckets.push_back({.dense_bytes = 1e6, .coded = true, .by_all = encoded, .by_owners = encoded});
  }
  in.buckets.push_back({.dense_bytes = 4000});
  return in;
}

Form form_of_most(const Plan& plan) { return plan.routes.front().form; }
std::string topology_of_most(const Plan& plan) { return std::string(topology_of(plan.routes.front())); }

TEST(Planner, CompressesOnASlowNetwork) {
  EXPECT_EQ(form_of_most(plans(situation(4, 1e-4, 1e7, 0.001)).front()), Form::coded);
}

// Nine buckets are hidden behind the backward pass in any form; the last one is not.
TEST(Planner, SendsTheLastBucketInSixteenBitsOnAFastOne) {
  const Plan best = plans(situation(4, 1e-6, 1e10, 0.001)).front();
  EXPECT_EQ(best.routes[9].form, Form::bfloat16);
}

TEST(Planner, SendsSixteenBitsOnAFastOneWhereTheCodecTakesTimeFromTheComputation) {
  Situation in = situation(4, 1e-6, 1e10, 0.001);
  in.own_cores = false;
  for (std::size_t b = 0; b < 10; ++b) EXPECT_EQ(plans(in).front().routes[b].form, Form::bfloat16) << b;
}

/// Of a step in which the large buckets go over a ring in this form, and nothing is hidden behind a computation.
double ring_seconds(Situation in, Form form) {
  in.buckets.pop_back();
  in.compute_seconds = 0;
  in.dense_seconds_per_byte = 0;
  in.links.combine_seconds_per_byte = 0;
  const auto ring = static_cast<std::size_t>(collectives::find_topology("ring") - collectives::topologies().data());
  return predicted_seconds(in, std::vector<Route>(in.buckets.size(), {.form = form, .topology = ring}));
}

TEST(Planner, KnowsThatSlowLinksPackNumbers) {
  for (const double bytes_per_second : {1e7, 1e10}) {
    const Situation plain = situation(4, 0, bytes_per_second, 0.001);
    Situation in = plain;
    in.links.packing = {.pack_seconds_per_byte = 1e-10, .unpack_seconds_per_byte = 1e-10};
    for (const auto& [form, element] :
         {std::pair(Form::float32, Element::float32), std::pair(Form::bfloat16, Element::bfloat16)}) {
      const double share = bytes_per_second == 1e7 ? collectives::usual_packed_share(element) : 1;
      EXPECT_NEAR(ring_seconds(in, form) / ring_seconds(plain, form), share, 1e-3) << bytes_per_second;
    }
    EXPECT_NEAR(ring_seconds(in, Form::coded), ring_seconds(plain, Form::coded), 1e-3 * ring_seconds(in, Form::coded))
        << "payloads are not packed";
  }
}

TEST(Planner, KeepsToTheCompressorWhereOnlyThatHasTheScale) {
  Situation in = situation(4, 1e-6, 1e10, 0.03);
  in.must_be_coded = true;
  for (const Plan& plan : plans(in)) EXPECT_EQ(form_of_most(plan), Form::coded);
}

TEST(Planner, SendsPayloadsByOwnersWhereThereAreManyRanks) {
  Situation in = situation(64, 1e-5, 1e8, 0.25);
  EXPECT_EQ(form_of_most(plans(in).front()), Form::coded);
  EXPECT_EQ(topology_of_most(plans(in).front()), "two_hop");
  EXPECT_TRUE(plans(in).front().routes.front().by_owners);
  in.fits_owners = false;
  EXPECT_EQ(form_of_most(plans(in).front()), Form::bfloat16);  // 63 payloads of a quarter are more than the array
}

TEST(Planner, LeavesToTheJobWhatOnlyAJobCanChoose) {
  for (const Plan& plan : plans(situation(64, 1e-5, 1e8, 0.25))) {
    for (const Route& route : plan.routes) {
      EXPECT_NE(topology_of(route), "split_gather");
      EXPECT_NE(topology_of(route), "multi_hop");
      EXPECT_NE(topology_of(route), "parameter_server");
    }
  }
}

// As with a compressor of eight bits: those of 64 ranks are more than a dense tensor, those of one are not.
TEST(Planner, SendsByOwnersWhatWouldGoDenseIfAllGatheredIt) {
  Situation in = situation(64, 1e-5, 1e8, 0.25);
  for (auto& bucket : in.buckets) bucket.by_all = {.left_dense_bytes = bucket.dense_bytes, .passes = {}};
  EXPECT_EQ(form_of_most(plans(in).front()), Form::coded);
  EXPECT_EQ(topology_of_most(plans(in).front()), "two_hop");
}

TEST(Planner, TriesTheBestOfEachFormAndFollowsTheFastestBeyondNoise) {
  const Situation in = situation(4, 1e-5, 1e9, 0.01);
  const auto tried = plans_to_try(in);
  EXPECT_EQ(tried.front(), plans(in).front());
  EXPECT_LE(tried.size(), 6U);
  EXPECT_GT(tried.size(), 1U);
  for (const Plan& plan : tried) EXPECT_LE(plan.step_seconds, 1.5 * tried.front().step_seconds);
  EXPECT_EQ(best_tried(std::vector{1.0, 0.98, 0.9, 0.95}), 2U);
  EXPECT_EQ(best_tried(std::vector{1.0, 0.98}), 0U);
}

/// Eight parameters of a megabyte, in one bucket or each in its own.
struct Eight {
  explicit Eight(double encode_seconds, double latency_seconds = 1e-5)
      : situation{.ranks = 4,
                  .links = {.latency_seconds = latency_seconds, .seconds_per_byte = 1e-9},
                  .buckets = {},
                  .must_be_coded = true} {
    const CodedLoad encoded{.passes = {{.summed = Element::float32, .bytes = 1e6}}, .encode_seconds = encode_seconds};
    parameters.assign(8, {.dense_bytes = 1e6, .coded = true, .by_all = encoded, .by_owners = encoded});
    layouts.resize(2);
    layouts[0] = {{.parameters = {7, 6, 5, 4, 3, 2, 1, 0}, .coded = true}, Bucket()};
    for (std::uint32_t p = 8; p-- > 0;) layouts[1].push_back({.parameters = {p}, .coded = true});
    layouts[1].emplace_back();
  }
  std::vector<Plan> plans(double compute_seconds, std::size_t current) {
    situation.compute_seconds = compute_seconds;
    return plans_to_try(situation, parameters, layouts, current);
  }

  Situation situation;
  std::vector<BucketLoad> parameters;
  std::vector<std::vector<Bucket>> layouts;
};

TEST(Planner, DecodesOnceHoweverManyPassesTheRoundHas) {
  const CodedLoad encoded{.passes = {{.bytes = 1000}}, .decode_seconds = 1e-3};
  Situation in{.ranks = 4,
               .links = {.latency_seconds = 0, .seconds_per_byte = 1e-9},
               .buckets = {{.dense_bytes = 1e6, .coded = true, .by_all = encoded, .by_owners = encoded}}};
  for (const std::string_view name : {"ring", "two_hop"}) {
    const auto topology = static_cast<std::size_t>(collectives::find_topology(name) - collectives::topologies().data());
    const bool by_owners = collectives::topologies()[topology].by_owners();
    const std::vector<Route> routes{{.form = Form::coded, .topology = topology, .by_owners = by_owners}};
    BucketLoad& load = in.buckets.front();
    load.by_all = load.by_owners = encoded;
    const double once = predicted_seconds(in, routes);
    const PassLoad first{.summed = Element::float32, .bytes = 0};
    load.by_all.passes.insert(load.by_all.passes.begin(), first);
    load.by_owners = load.by_all;
    EXPECT_NEAR(predicted_seconds(in, routes), once, 1e-9) << name;
  }
}

TEST(Planner, TakesSmallBucketsOnlyWhereTheyAreFaster) {
  const Eight slow_to_encode(1e-3);  // takes about as long as the wire, and overlaps
  EXPECT_EQ(best_layout(slow_to_encode.situation, slow_to_encode.parameters, slow_to_encode.layouts), 1U);
  const Eight quick(1e-5);
  EXPECT_EQ(best_layout(quick.situation, quick.parameters, quick.layouts), 0U);
}

TEST(Planner, LeavesTheBucketsAsTheyAreUntilTheComputationIsKnown) {
  Eight slow_to_encode(1e-3);
  for (const Plan& plan : slow_to_encode.plans(0, 0)) EXPECT_EQ(plan.layout, 0U);
  const auto found = slow_to_encode.plans(0.01, 0);
  EXPECT_EQ(found.front().layout, 1U);
  EXPECT_EQ(found.front().routes.size(), 9U);
  EXPECT_EQ(found.back().layout, 0U);  // the model may be wrong
  EXPECT_EQ(found.back().routes.size(), 2U);
  EXPECT_EQ(std::ranges::count(found, 0U, &Plan::layout), 1);
}

TEST(Planner, NothingIsExchangedBesideTheComputationWhereValuesComeTogether) {
  Eight slow(1e-5, /*latency_seconds=*/1e-7);
  slow.situation.links.seconds_per_byte = 1e-8;
  slow.situation.together = true;
  for (const Plan& plan : slow.plans(0.4, 1)) EXPECT_GT(plan.step_seconds, 0.4 + 8e6 * 1e-8);
}

TEST(Planner, OfSeveralGroupsAStepExchangesOne) {
  Eight of_one(1e-3);
  Situation in = of_one.situation;
  in.buckets = loads_of(of_one.parameters, of_one.layouts[0]);
  const std::vector<Route> routes(2);
  const double seconds = predicted_seconds(in, routes);
  for (BucketLoad bucket : loads_of(of_one.parameters, of_one.layouts[0])) {
    bucket.group = 1;
    in.buckets.push_back(bucket);
  }
  EXPECT_DOUBLE_EQ(predicted_seconds(in, std::vector<Route>(4)), seconds);
}

TEST(Planner, ChoosesLargeBucketsWhereMessagesTakeLongBesideTheComputation) {
  Eight far(1e-5, /*latency_seconds=*/0.02);
  EXPECT_EQ(far.plans(0.01, 1).front().layout, 0U);
  Eight slow(1e-5, /*latency_seconds=*/1e-7);  // what is exchanged beside the computation takes no time
  slow.situation.links.seconds_per_byte = 1e-8;
  EXPECT_EQ(slow.plans(0.4, 0).front().layout, 1U);
}

TEST(Planner, TakesFewMessagesWhereTheyTakeLong) {
  Situation in = situation(64, 0.02, 1e9, 1);
  const std::string topology = topology_of_most(plans(in).front());
  EXPECT_NE(topology, "ring");
}

TEST(Planner, APlainBucketStaysAsItIs) {
  for (const Plan& plan : plans(situation(8, 1e-3, 1e8, 0.01))) EXPECT_EQ(plan.routes.back().form, Form::float32);
}

TEST(Planner, BucketsThatAreNotWorthItGoDenseAmongOthersThatAre) {
  Situation in = situation(4, 1e-5, 1e8, 0.001);
  in.buckets[3].by_all.encode_seconds = in.buckets[3].by_owners.encode_seconds = 1;
  const Plan plan = plans(in).front();
  EXPECT_EQ(plan.routes[3].form, Form::bfloat16);
  EXPECT_EQ(plan.routes[4].form, Form::coded);
}

TEST(Planner, WhatIsDenseInAWarmupAnywayIsRounded) {
  Situation in = situation(4, 1e-5, 1e8, 0.001);
  for (auto& bucket : in.buckets) {
    bucket.by_all = bucket.by_owners = {.left_dense_bytes = bucket.dense_bytes, .passes = {}};
  }
  EXPECT_EQ(form_of_most(plans(in).front()), Form::bfloat16);
}

TEST(Planner, TheFastestComesFirstAndNoneTwice) {
  const auto found = plans(situation(8, 1e-4, 1e8, 0.01));
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(found[i - 1].step_seconds, found[i].step_seconds);
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(found[i] == found[j]);
  }
}

TEST(Planner, AStepIsNoShorterThanItsComputationNorItsBytes) {
  for (const double rate : {1e6, 1e8, 1e12}) {
    const Situation in = situation(8, 1e-5, rate, 0.01);
    for (const Plan& plan : plans(in)) {
      EXPECT_GE(plan.step_seconds, in.compute_seconds);
      if (form_of_most(plan) != Form::float32) continue;
      EXPECT_GE(plan.step_seconds, 2 * 7.0 / 8 * 1e7 / rate);
    }
  }
}

/// A bucket of gradients on hosts of several ranks.
struct OnHosts {
  std::uint32_t hosts;
  std::uint32_t ranks_each;
  LinkCosts between;
  LinkCosts within;
  double bytes;
};

Situation situation(const OnHosts& of) {
  return {.ranks = of.hosts * of.ranks_each,
          .links = of.between,
          .hosts = {.count = of.hosts, .ranks_max = of.ranks_each, .ends_max = 1, .links = of.within},
          .buckets = {{.dense_bytes = of.bytes}}};
}

constexpr LinkCosts memory{.latency_seconds = 1e-6, .seconds_per_byte = 1e-10};
constexpr LinkCosts near{.latency_seconds = 1e-6, .seconds_per_byte = 1e-9};
constexpr LinkCosts far{.latency_seconds = 1e-2, .seconds_per_byte = 1e-8};
constexpr LinkCosts instant{};

// Around a ring one rank of each host sends out of it, in other topologies all of them do at once.
TEST(Planner, TakesForDenseGradientsOnHostsWhatCostsLeast) {
  EXPECT_EQ(topology_of_most(plans(situation({4, 8, far, memory, 1e6})).front()), "hierarchical");
  EXPECT_EQ(topology_of_most(plans(situation({2, 4, near, near, 1e9})).front()), "ring");
  EXPECT_EQ(topology_of_most(plans(situation({2, 2, near, near, 4})).front()), "two_hop");  // two hops, not six
  EXPECT_EQ(
      topology_of_most(plans(situation({3, 8, memory, {.latency_seconds = 1, .seconds_per_byte = 1}, 1e6})).front()),
      "two_hop");  // within a host there is nothing to gain
}

TEST(Planner, PredictsWhatHostsShare) {
  const auto seconds = [](const OnHosts& of, std::string_view topology) {
    const auto all = collectives::topologies();
    const auto at = static_cast<std::size_t>(collectives::find_topology(topology) - all.data());
    return predicted_seconds(situation(of), std::vector<Route>{{.form = Form::float32, .topology = at}});
  };
  const LinkCosts byte{.seconds_per_byte = 1};
  EXPECT_DOUBLE_EQ(seconds({2, 4, byte, instant, 800}, "ring"), 2 * 700);
  EXPECT_DOUBLE_EQ(seconds({2, 4, byte, instant, 800}, "butterfly"), 4 * 2 * 700);  // four ranks share a port
  EXPECT_DOUBLE_EQ(seconds({2, 4, byte, instant, 800}, "hierarchical"), 800);
  EXPECT_DOUBLE_EQ(seconds({2, 4, byte, byte, 800}, "hierarchical"),
                   800 + 4 * 800);  // up a tree from two children, and down
  EXPECT_DOUBLE_EQ(seconds({2, 4, instant, byte, 800}, "ring"), 2 * 700);
  const LinkCosts message{.latency_seconds = 1};
  EXPECT_DOUBLE_EQ(seconds({2, 4, message, instant, 0}, "ring"), 2 * 7);
  EXPECT_DOUBLE_EQ(seconds({2, 4, instant, message, 0}, "ring"), 2 * 7);
  EXPECT_DOUBLE_EQ(seconds({2, 4, message, instant, 0}, "hierarchical"), 2);
}

TEST(Planner, HasNoTopologyForHostsWhereNoneIsShared) {
  for (const Plan& plan : plans(situation(8, 1e-5, 1e8, 0.25))) {
    for (const Route& route : plan.routes) EXPECT_NE(topology_of(route), "hierarchical");
  }
}

/// Where each rank that encodes stands for a host.
Situation summed_within_hosts(std::uint32_t hosts, double kept) {
  Situation in = situation(hosts, 1e-5, 1e8, kept);
  in.ranks = 4 * hosts;
  in.hosts = {.count = hosts, .ranks_max = 4, .ends_max = 1, .links = memory};
  in.by_hosts = true;
  return in;
}

TEST(Planner, SendsPayloadsOfHostsByOwnersWhereThereAreMany) {
  EXPECT_EQ(topology_of_most(plans(summed_within_hosts(64, 0.25)).front()), "two_hop");
  EXPECT_EQ(form_of_most(plans(summed_within_hosts(64, 0.25)).front()), Form::coded);
  EXPECT_TRUE(plans(summed_within_hosts(64, 0.25)).front().routes.front().by_owners);
  EXPECT_NE(topology_of_most(plans(summed_within_hosts(2, 0.25)).front()), "two_hop");
  Situation misfit = summed_within_hosts(64, 0.25);
  misfit.fits_owners = false;
  EXPECT_EQ(form_of_most(plans(misfit).front()), Form::bfloat16);
}

// Of six hosts with four ranks each no topology for powers of two fits; of four hosts with three each it does, but not
// all ranks.
TEST(Planner, ATopologyMustFitThoseWhoTakeIt) {
  for (const std::uint32_t hosts : {6U, 4U}) {
    Situation in = summed_within_hosts(hosts, 0.01);
    in.hosts.ranks_max = hosts == 4 ? 3 : 4;
    in.ranks = hosts * in.hosts.ranks_max;
    bool some_butterfly = false;
    for (const Plan& plan : plans(in)) {
      EXPECT_NE(topology_of(plan.routes.back()), "butterfly");
      some_butterfly |= topology_of_most(plan) == "butterfly";
    }
    EXPECT_EQ(some_butterfly, hosts == 4);
  }
}

// Two lanes and the urgent one, on which the last bucket does not wait for others.
TEST(Planner, AsManyBucketsAsLanesWaitSideBySide) {
  Situation in{.ranks = 2, .links = {.latency_seconds = 1}, .buckets = std::vector<BucketLoad>(3, {.dense_bytes = 4})};
  const auto seconds = [&] { return predicted_seconds(in, std::vector<Route>(in.buckets.size())); };
  EXPECT_DOUBLE_EQ(seconds(), 2);  // there and back
  in.buckets.push_back({.dense_bytes = 4});
  EXPECT_DOUBLE_EQ(seconds(), 4);
}

}  // namespace
}  // namespace weir::training
