#include "bench/scaling_cell.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/simulated_step.hpp"
#include "collectives/topologies/catalog.hpp"

namespace weir::bench {
namespace {

using training::BucketLoad;
using training::CodedLoad;

/// Ten parameters of four megabytes, a few bytes each where they are encoded.
Way sparse_way() {
  Way way{.compressor = "sparse", .parameters = {}, .gathers = true, .fits_owners = true};
  const CodedLoad encoded{.passes = {{.bytes = 4000}}, .encode_seconds = 1e-3, .decode_seconds = 1e-5};
  way.parameters.assign(10, BucketLoad{.dense_bytes = 4e6, .coded = true, .by_all = encoded, .by_owners = encoded});
  return way;
}

Way dense_way() { return {.compressor = "none", .parameters = std::vector(10, BucketLoad{.dense_bytes = 4e6})}; }

Cell cell(double bytes_per_second) {
  return {.ranks = 8,
          .links = {.latency_seconds = 1e-4, .seconds_per_byte = 1 / bytes_per_second, .combine_seconds_per_byte = 0},
          .compute_seconds = 0.01,
          .dense_seconds_per_byte = 1e-10,
          .frames_max = 1e6};
}

TEST(ScalingCell, CompressionWinsWhereTheNetworkIsSlowAndLosesWhereItIsFast) {
  const std::vector<Way> ways{dense_way(), sparse_way()};
  const auto slow = times_in(cell(1e8), ways).value();
  EXPECT_LT(slow[1].fixed.seconds, 0.1 * slow[0].fixed.seconds);
  const auto fast = times_in(cell(1e12), ways).value();
  EXPECT_GT(fast[1].fixed.seconds, fast[0].fixed.seconds);
  for (const auto& times : {slow, fast}) {
    for (const WayTimes& way : times) {
      EXPECT_TRUE(way.automatic.simulated);
      EXPECT_LE(way.automatic.seconds, 1.1 * way.best_choice) << way.compressor;
      EXPECT_LE(way.best_choice, way.fixed.seconds);
    }
  }
}

/// The topologies over which a job with `way` is simulated. With this much computation none is hopeless.
std::set<std::string> names_of_choices(const Way& way, std::uint32_t ranks) {
  Cell slow = cell(1e9);
  slow.ranks = ranks;
  slow.compute_seconds = 1;
  const auto times = times_in(slow, std::span(&way, 1)).value();
  std::set<std::string> names;
  for (const StepTime& choice : times.front().choices) names.insert(choice.name);
  return names;
}

TEST(ScalingCell, ComparesWithWhatAJobCanName) {
  using Names = std::set<std::string>;
  EXPECT_EQ(names_of_choices(dense_way(), 8), (Names{"ring", "butterfly", "tree", "two_hop"}));
  EXPECT_EQ(names_of_choices(dense_way(), 6), (Names{"ring", "binary_blocks", "tree", "two_hop"}));
  EXPECT_EQ(names_of_choices(sparse_way(), 8), (Names{"butterfly", "two_hop"}));
  EXPECT_EQ(names_of_choices(sparse_way(), 6), (Names{"binary_blocks", "two_hop"}));
}

/// What a step with `way` takes over `topology`, on a network and with a computation that let its frames decide.
double seconds_over(std::string_view topology, const Way& way, std::uint32_t ranks) {
  const auto found = collectives::find_topology(topology);
  const std::vector buckets(way.parameters);
  const training::Situation situation{.ranks = ranks,
                                      .links = cell(1e9).links,
                                      .buckets = buckets,
                                      .compute_seconds = 1e-3,
                                      .dense_seconds_per_byte = 1e-10,
                                      .fits_owners = way.fits_owners,
                                      .lanes = 2};
  const training::Route route{.form = training::Form::coded,
                              .topology = static_cast<std::size_t>(found - collectives::topologies().data()),
                              .by_owners = way.gathers && found->by_owners()};
  return simulated_seconds(situation, work_of(situation, std::vector(buckets.size(), route))).value();
}

TEST(ScalingCell, LeavesOutOnlyWhatTakesTheTimeOfAnother) {
  for (const Way& way : {dense_way(), sparse_way()}) {
    for (const std::uint32_t ranks : {8, 6}) {
      const auto expect_same = [&](std::string_view left_out, std::string_view simulated) {
        EXPECT_DOUBLE_EQ(seconds_over(left_out, way, ranks), seconds_over(simulated, way, ranks))
            << way.compressor << ", " << ranks << " ranks, " << left_out;
      };
      const std::string_view among_hosts = ranks == 8 ? "butterfly" : "binary_blocks";
      expect_same("binary_blocks", among_hosts);
      expect_same("hierarchical", among_hosts);
      expect_same("parameter_server", "two_hop");
      if (way.gathers) expect_same("split_gather", "two_hop");
    }
  }
}

TEST(ScalingCell, TheModelIsNearTheSimulationOfManyRanks) {
  Cell many = cell(1e9);
  many.ranks = 64;
  double largest = 1;
  for (const Way& way : {dense_way(), sparse_way()}) {
    const auto times = times_in(many, std::span(&way, 1)).value();
    for (const StepTime& choice : times.front().choices) {
      ASSERT_TRUE(choice.simulated) << choice.name;
      const double ratio = choice.seconds / choice.predicted;
      largest = std::max({largest, ratio, 1 / ratio});
      EXPECT_NEAR(ratio, 1, 0.25) << way.compressor << " over " << choice.name;
    }
  }
  RecordProperty("largest_difference", std::to_string(largest));
}

TEST(ScalingCell, OnlyWhatFitsIsSimulated) {
  Cell small = cell(1e8);
  small.frames_max = 10;
  const auto times = times_in(small, std::vector{dense_way()}).value();
  EXPECT_FALSE(times[0].fixed.simulated);
  EXPECT_NEAR(times[0].fixed.seconds, times_in(cell(1e8), std::vector{dense_way()}).value()[0].fixed.seconds,
              0.2 * times[0].fixed.seconds);
}

}  // namespace
}  // namespace weir::bench
