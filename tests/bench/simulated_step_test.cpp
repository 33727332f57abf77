#include "bench/simulated_step.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "collectives/topologies/catalog.hpp"

namespace weir::bench {
namespace {

using training::BucketLoad;
using training::CodedLoad;
using training::Form;
using training::Route;
using training::Situation;

Route route_over(std::string_view topology, Form form, bool by_owners = false) {
  const auto* type = collectives::find_topology(topology);
  return {.form = form,
          .topology = static_cast<std::size_t>(type - collectives::topologies().data()),
          .by_owners = by_owners};
}

double seconds_of(const Situation& situation, const std::vector<Route>& routes) {
  return simulated_seconds(situation, work_of(situation, routes)).value();
}

/// Two equally large buckets that are encoded, and an empty one for the votes.
Situation coded_situation(const CodedLoad& encoded) {
  Situation in{.ranks = 4, .links = {}, .buckets = {}, .compute_seconds = 3, .lanes = 2};
  const BucketLoad load{.dense_bytes = 1e6, .coded = true, .by_all = encoded, .by_owners = encoded};
  in.buckets = {load, load, BucketLoad{}};
  return in;
}

// The forward pass takes 1 s, and each of the buckets another of the backward pass: they are ready at 2 and 3 s. One is
// encoded from 2 to 2.5 s and its four payloads decoded until 2.9 s; the other is encoded from 3 to 3.5 s and decoded
// until 3.9 s.
TEST(SimulatedStep, TakesWhatCodingLeavesExposedWhereMessagesTakeNoTime) {
  const Situation in = coded_situation({.passes = {{.bytes = 1000}}, .encode_seconds = 0.5, .decode_seconds = 0.1});
  const std::vector<Route> routes(3, route_over("butterfly", Form::coded));
  EXPECT_NEAR(seconds_of(in, routes), 3.9, 1e-9);
}

// By owners a rank decodes one payload's worth of shares, encodes a quarter, and decodes one payload: the last bucket
// from 3.5 s on 0.1 + 0.5 / 4 + 0.1 s.
TEST(SimulatedStep, ByOwnersARankDecodesAndEncodesItsShare) {
  const Situation in = coded_situation({.passes = {{.bytes = 1000}}, .encode_seconds = 0.5, .decode_seconds = 0.1});
  const std::vector<Route> routes(3, route_over("two_hop", Form::coded, /*by_owners=*/true));
  EXPECT_NEAR(seconds_of(in, routes), 3.825, 1e-9);
}

// Encoding takes longer than the backward pass: the second bucket waits for the codec thread until 4 s, and is encoded
// in two passes of a second each.
TEST(SimulatedStep, OneBucketAfterTheOtherIsEncoded) {
  const training::PassLoad pass{.summed = collectives::Element::float32, .bytes = 1000};
  const Situation in = coded_situation({.passes = {pass, pass}, .encode_seconds = 2});
  const std::vector<Route> routes(3, route_over("ring", Form::coded));
  EXPECT_NEAR(seconds_of(in, routes), 6, 1e-9);
}

TEST(SimulatedStep, TakesAsLongAsTheTopologyStates) {
  for (const std::string_view topology : {"ring", "butterfly", "two_hop"}) {
    Situation in{.ranks = 8,
                 .links = {.latency_seconds = 1e-5, .seconds_per_byte = 1e-9, .combine_seconds_per_byte = 0},
                 .buckets = {BucketLoad{.dense_bytes = 64e6}}};
    const auto& type = *collectives::find_topology(topology);
    const auto cost = type.all_reduce_cost(in.ranks, 64e6);
    const double stated = cost.alpha * 1e-5 + cost.beta * 1e-9;
    EXPECT_NEAR(seconds_of(in, {route_over(topology, Form::float32)}), stated, 0.05 * stated) << topology;
  }
}

TEST(SimulatedStep, HalfTheBytesTakeHalfTheTime) {
  Situation in{.ranks = 8,
               .links = {.latency_seconds = 0, .seconds_per_byte = 1e-9, .combine_seconds_per_byte = 0},
               .buckets = {BucketLoad{.dense_bytes = 64e6, .coded = true}, BucketLoad{}}};
  const Route plain = route_over("ring", Form::float32);
  const double whole = seconds_of(in, {plain, plain});
  EXPECT_NEAR(seconds_of(in, {route_over("ring", Form::bfloat16), plain}), whole / 2, 0.01 * whole);
}

// A line of 0.1 GB/s: what packing takes is little beside what it saves.
TEST(SimulatedStep, SlowLinesPackWhatIsSummed) {
  const training::PassLoad sums{.summed = collectives::Element::bfloat16, .bytes = 32e6};
  const CodedLoad encoded{.passes = {sums}};
  Situation in{.ranks = 8,
               .links = {.latency_seconds = 0, .seconds_per_byte = 1e-8, .combine_seconds_per_byte = 0},
               .buckets = {BucketLoad{.dense_bytes = 64e6, .coded = true, .by_all = encoded}, BucketLoad{}}};
  const Route plain = route_over("ring", Form::float32);
  const double whole = seconds_of(in, {plain, plain});
  in.links.packing = {.pack_seconds_per_byte = 1e-10, .unpack_seconds_per_byte = 1e-10};
  const double float32 = collectives::usual_packed_share(collectives::Element::float32);
  const double bfloat16 = collectives::usual_packed_share(collectives::Element::bfloat16) / 2;
  EXPECT_NEAR(seconds_of(in, {plain, plain}), float32 * whole, 0.01 * whole);
  EXPECT_NEAR(seconds_of(in, {route_over("ring", Form::bfloat16), plain}), bfloat16 * whole, 0.01 * whole);
  EXPECT_NEAR(seconds_of(in, {route_over("ring", Form::coded), plain}), bfloat16 * whole, 0.01 * whole);
}

TEST(SimulatedStep, CountsItsFrames) {
  Situation in{.ranks = 8, .links = {}, .buckets = {BucketLoad{.dense_bytes = 8 * 512 * 1024}}};
  // 14 chunks of half a megabyte, and the float of the votes: two or three frames each.
  const auto work = work_of(in, std::vector{route_over("ring", Form::float32)});
  EXPECT_GE(frames_of(work, 8), 8 * 14 * 2);
  EXPECT_LE(frames_of(work, 8), 8 * 14 * 3);
}

}  // namespace
}  // namespace weir::bench
