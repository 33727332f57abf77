#include "training/exchange/aggregation.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;

constexpr std::uint32_t ranks = 3;

compressors::Compression compression(const std::string& compressor, const nlohmann::json& params = nullptr) {
  const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = compressor, .params = params, .memory = {}, .memory_params = none, .setting = {}})
      .value();
}

/// What rank 0 gets of two tensors: -1, 2 and 4 from the three ranks, everywhere in the first and negated in the
/// second, with 1, 2 and 5 samples. All ranks must have the same, and one of them votes. The last so many are
/// `statistics`.
std::vector<at::Tensor> aggregated(Aggregation aggregation, const std::string& topology,
                                   const std::string& compressor = "none", const nlohmann::json& params = nullptr,
                                   std::size_t statistics = 0) {
  auto group = collectives::in_process_group(ranks, 3, {.ranks_per_host = 2});
  std::vector<std::vector<at::Tensor>> results(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    const std::vector<NamedTensor> tensors{{"first", at::zeros({4, 4})}, {"second", at::zeros({5})}};
    Exchange exchange(tensors, compression(compressor, params), *group[rank],
                      {.aggregation = aggregation,
                       .bucket_sizes = {},
                       .statistics = statistics,
                       .topology = {topology, 0},
                       .make_compression = [&] { return compression(compressor, params); }});
    const float own = std::vector<float>{-1, 2, 4}[rank];
    for (std::uint64_t step = 0; step < 2; ++step) {
      exchange.begin({.number = step,
                      .vote = rank == 1 && step == 1 ? 1.0F : 0.0F,
                      .samples = std::vector<std::uint64_t>{1, 2, 5}[rank]});
      exchange.give(0, at::full({4, 4}, own));
      exchange.give(1, at::full({5}, -own));
      const auto agreed = exchange.finish();
      ASSERT_TRUE(agreed) << agreed.error().message();
      EXPECT_EQ(agreed->votes, step == 1 ? 1.0F : 0.0F);
    }
    for (const auto& mean : exchange.means()) results[rank].push_back(mean.tensor.clone());
    group[rank]->close();
  });
  for (const auto& of_rank : results) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(of_rank[i].equal(results[0][i])) << topology;
  }
  return results[0];
}

struct Expected {
  Aggregation aggregation;
  float first;
  float second;
};
constexpr float mean = 5.0F / 3;
constexpr float weighted = (-1.0F + 2 * 2 + 5 * 4) / 8;

constexpr std::array all_aggregations{Expected{Aggregation::mean, mean, -mean}, Expected{Aggregation::sum, 5, -5},
                                      Expected{Aggregation::min, -1, -4}, Expected{Aggregation::max, 4, 1},
                                      Expected{Aggregation::weighted, weighted, -weighted}};

TEST(Aggregation, IsOfTheRanksValues) {
  for (const std::string topology : {"ring", "tree", "two_hop", "parameter_server", "hierarchical", "auto"}) {
    for (const auto& [aggregation, first, second] : all_aggregations) {
      const auto result = aggregated(aggregation, topology);
      EXPECT_TRUE(result[0].allclose(at::full({4, 4}, first))) << topology << " " << first << " " << result[0];
      EXPECT_TRUE(result[1].allclose(at::full({5}, second))) << topology << " " << second << " " << result[1];
    }
  }
}

TEST(Aggregation, OfStatisticsIsAMean) {
  for (const std::string topology : {"ring", "tree", "two_hop", "parameter_server", "hierarchical", "auto"}) {
    for (const auto& [aggregation, first, second] : all_aggregations) {
      const float expected = aggregation == Aggregation::weighted ? -weighted : -mean;
      const auto result = aggregated(aggregation, topology, "none", nullptr, 1);
      EXPECT_TRUE(result[0].allclose(at::full({4, 4}, first))) << topology << " " << first << " " << result[0];
      EXPECT_TRUE(result[1].allclose(at::full({5}, expected))) << topology << " " << second << " " << result[1];
      const auto both = aggregated(aggregation, topology, "none", nullptr, 2);
      EXPECT_TRUE(both[0].allclose(at::full({4, 4}, -expected))) << topology << " " << first << " " << both[0];
    }
  }
}

TEST(Aggregation, OfWhatIsCompressedIsASumOrAMean) {
  const nlohmann::json almost_all{{"ratio", 0.95}};
  for (const std::string topology : {"ring", "two_hop", "split_gather", "hierarchical"}) {
    const auto sum = aggregated(Aggregation::sum, topology, "topk", almost_all);
    EXPECT_TRUE(sum[0].allclose(at::full({4, 4}, 5.0F))) << topology << sum[0];
    EXPECT_TRUE(sum[1].allclose(at::full({5}, -5.0F))) << topology;
    const auto by_samples = aggregated(Aggregation::weighted, topology, "topk", almost_all);
    EXPECT_TRUE(by_samples[0].allclose(at::full({4, 4}, weighted))) << topology << by_samples[0];
  }
}

}  // namespace
}  // namespace weir::training
