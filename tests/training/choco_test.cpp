#include "training/gossip/choco.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gossip/graph.hpp"
#include "exchange_cases.hpp"
#include "training/gossip/consensus_step.hpp"

namespace weir::training {
namespace {

using compressors::builtin;
using nlohmann::json;

std::unique_ptr<compressors::Compressor> made(const std::string& name, const json& params) {
  return builtin().make_compressor(name, params).value();
}

collectives::Graph graph_of(const std::string& name, std::uint32_t ranks) {
  return collectives::make_graph(ranks, {.name = name}).value();
}

/// Several ranks in one thread, whose payloads are handed over in memory.
class Ranks {
 public:
  Ranks(const collectives::Graph& graph, const std::string& compressor, const json& params, double gamma)
      : values_(graph.ranks()) {
    for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
      values_[rank] = {{"matrix", torch::zeros({40, 30})}, {"block", torch::zeros({25, 2, 2})}};
      compressors_.push_back(made(compressor, params));
      const auto neighbours = graph.neighbours(rank);
      all_neighbours_.emplace_back(neighbours.begin(), neighbours.end());
      std::vector<float> weights;
      for (const auto other : neighbours) weights.push_back(static_cast<float>(graph.mixing_weight(rank, other)));
      chocos_.push_back(std::make_unique<Choco>(
          values_[rank], std::vector<std::uint32_t>{0, 1}, std::vector<double>{gamma, gamma}, *compressors_.back(),
          Choco::Options{
              .seed = 5, .rank = rank, .neighbours = {neighbours.begin(), neighbours.end()}, .weights = weights}));
    }
    // They have gone their ways since they were equal.
    torch::manual_seed(3);
    for (auto& of_rank : values_) {
      for (auto& value : of_rank) value.tensor.copy_(torch::randn(value.tensor.sizes()).pow(3));
    }
  }

  void step(std::uint64_t number) {
    const Step step{.number = number, .epoch = 1e9};
    std::vector<Bytes> payloads(values_.size());
    std::vector<std::vector<std::size_t>> ends(values_.size());
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      chocos_[rank]->encode(step, 0, 2, payloads[rank], ends[rank]).value();
    }
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      std::vector<Bytes> received;
      for (const auto other : all_neighbours_[rank]) received.push_back(payloads[other]);
      chocos_[rank]->take(step, 0, 2, payloads[rank], ends[rank], received).value();
    }
  }

  std::vector<std::vector<NamedTensor>>& values() { return values_; }
  Choco& of(std::size_t rank) { return *chocos_[rank]; }

  at::Tensor mean(std::size_t tensor) const {
    at::Tensor sum = torch::zeros_like(values_[0][tensor].tensor, torch::kDouble);
    for (const auto& of_rank : values_) sum += of_rank[tensor].tensor;
    return sum / static_cast<double>(values_.size());
  }

  double distance() const {
    double squares = 0;
    for (std::size_t t = 0; t < 2; ++t) {
      const at::Tensor middle = mean(t);
      for (const auto& of_rank : values_) squares += (of_rank[t].tensor - middle).square().sum().item<double>();
    }
    return std::sqrt(squares / static_cast<double>(values_.size()));
  }

 private:
  std::vector<std::vector<NamedTensor>> values_;
  std::vector<std::unique_ptr<compressors::Compressor>> compressors_;
  std::vector<std::unique_ptr<Choco>> chocos_;
  std::vector<std::vector<std::uint32_t>> all_neighbours_;
};

/// Whether the mode accepts a compressor.
bool accepted(const std::string& name, const json& params) {
  const auto compressor = made(name, params);
  const auto traits = compressor->traits();
  return traits.passes.size() == 1 && !traits.votes && !traits.owns_momentum && !traits.lossless &&
         std::isfinite(compressor->error_bound(1'000'000, {.epoch = 1e9}));
}

struct Case {
  std::string compressor;
  json params;
};

void PrintTo(const Case& it, std::ostream* out) { *out << it.compressor << it.params.dump(); }

/// All that the mode accepts, at the defaults and with the parameters that other tests use.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& entry : builtin().compressors()) {
    auto sets = testing::compressor_params().at(entry.name);
    sets.insert(sets.begin(), json::object());
    for (const auto& params : sets) {
      if (accepted(entry.name, params)) all.push_back({entry.name, params});
    }
  }
  return all;
}

class Accepted : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Choco, Accepted, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.compressor + "_" + std::to_string(info.index); });

TEST_P(Accepted, BringsTheRanksTogetherAndKeepsTheirMean) {
  const auto& [name, params] = GetParam();
  for (const std::string shape : {"ring", "torus"}) {
    const auto graph = graph_of(shape, 6);
    const auto probe = made(name, params);
    const double delta = contraction_of(*probe, {40, 30}, 1);
    const double gamma = consensus_step_for(delta);
    Ranks ranks(graph, name, params, gamma);
    const double before = ranks.distance();
    const at::Tensor middle = ranks.mean(0);
    double largest = before;
    // As many steps as exact mixing with this gamma takes for a factor of a million, between 60 and 1500.
    const auto steps = static_cast<std::uint64_t>(std::clamp(14 / (gamma / 3), 60.0, 1500.0));
    for (std::uint64_t step = 0; step < steps; ++step) {
      ranks.step(step);
      largest = std::max(largest, ranks.distance());
    }
    // A fixed threshold, and numbers of 16 bits, leave some of it.
    EXPECT_LT(ranks.distance(), 0.3 * before) << shape << ", " << steps << " steps, gamma " << gamma;
    EXPECT_LE(largest, 1.05 * before) << shape;
    EXPECT_LT((ranks.mean(0) - middle).abs().max().item<double>(), 1e-3) << shape;
  }
}

// The definition, with everybody's estimates in one place.
TEST_P(Accepted, IsTheAlgorithmOfThePaper) {
  const auto& [name, params] = GetParam();
  const auto graph = graph_of("ring", 4);
  constexpr double gamma = 0.3;
  Ranks ranks(graph, name, params, gamma);
  std::vector<std::unique_ptr<compressors::Compressor>> coders;
  std::vector<std::vector<at::Tensor>> x(4);
  std::vector<std::vector<at::Tensor>> h(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    coders.push_back(made(name, params));
    for (const auto& value : ranks.values()[rank]) {
      x[rank].push_back(value.tensor.clone());
      h[rank].push_back(torch::zeros_like(value.tensor));
    }
  }
  for (std::uint64_t step = 0; step < 5; ++step) {
    ranks.step(step);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      for (std::uint32_t t = 0; t < 2; ++t) {
        compressors::Round round{.seed = 5, .step = step, .epoch = 1e9, .tensor = t, .rank = rank};
        auto pair = round;
        pair.world = 2;
        const at::Tensor difference = x[rank][t] - h[rank][t];
        if (coders[rank]->goes_dense(difference.sizes(), pair)) {
          h[rank][t] += difference;
          continue;
        }
        Bytes payload;
        coders[rank]->encode(difference, round, payload).value();
        at::Tensor q = torch::zeros_like(difference);
        coders[rank]->decode_add(payload, round, 1, q).value();
        const double bound = coders[rank]->error_bound(q.numel(), round);
        h[rank][t] += q / (coders[rank]->traits().biased && bound <= 1 ? 1 : 1 + bound);
      }
    }
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      for (std::uint32_t t = 0; t < 2; ++t) {
        for (const auto other : graph.neighbours(rank)) x[rank][t] += gamma / 3 * (h[other][t] - h[rank][t]);
        EXPECT_TRUE(ranks.values()[rank][t].tensor.allclose(x[rank][t], 1e-4, 1e-4))
            << "step " << step << ", rank " << rank << ", tensor " << t;
        // From here on both are the same: what is chosen must not depend on rounding.
        x[rank][t].copy_(ranks.values()[rank][t].tensor);
      }
      for (const auto& saved : ranks.of(rank).save()) {
        if (saved.name == "estimate.matrix") {
          EXPECT_TRUE(saved.tensor.allclose(h[rank][0], 1e-4, 1e-4)) << "step " << step;
          h[rank][0].copy_(saved.tensor);
        }
        if (saved.name == "estimate.block") h[rank][1].copy_(saved.tensor);
      }
    }
  }
}

TEST(Choco, RefusesWhatIsNoMessageOfANeighbour) {
  const auto graph = graph_of("ring", 2);
  for (const std::string name : {"topk", "fp16"}) {
    Ranks ranks(graph, name, json::object(), 0.5);
    const Step step{.number = 0, .epoch = 1e9};
    Bytes own;
    std::vector<std::size_t> ends;
    ranks.of(0).encode(step, 0, 2, own, ends).value();
    const auto taken = [&](Bytes received) { return ranks.of(0).take(step, 0, 2, own, ends, std::span(&received, 1)); };
    EXPECT_TRUE(taken(own));
    Bytes longer = own;
    longer.push_back(std::byte{0});
    Bytes shorter = own;
    shorter.pop_back();
    for (const auto& wrong : {longer, shorter, Bytes()}) {
      const auto refused = taken(wrong);
      ASSERT_FALSE(refused) << name;
      EXPECT_NE(refused.error().message().find("rank 1"), std::string::npos) << refused.error().message();
    }
  }
}

TEST(ConsensusStep, IsMoreWhereTheCompressorLeavesLess) {
  const auto delta = [](const std::string& name, const json& params) {
    return contraction_of(*made(name, params), {64, 64}, 1);
  };
  EXPECT_GT(delta("fp16", {}), 0.999);
  EXPECT_GT(delta("int8", {}), 0.99);
  EXPECT_NEAR(delta("onebit", {}), 2 / 3.14159, 0.05);  // the square of the mean magnitude
  EXPECT_GT(delta("topk", {{"ratio", 0.1}}), 2 * delta("topk", {{"ratio", 0.01}}));
  EXPECT_GT(delta("topk", {{"ratio", 0.01}}), 0.05);
  EXPECT_NEAR(delta("randomk", {{"ratio", 0.1}}), 0.1, 0.03);
  EXPECT_GT(delta("natural", {}), 1 / 1.125 - 0.01);
}

}  // namespace
}  // namespace weir::training
