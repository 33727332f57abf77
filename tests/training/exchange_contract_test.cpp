// What the exchange promises, whatever compressor and memory it is given: all ranks have the same means, bit for bit,
// they are what the algorithm says, and a training goes on from saved state as if it had not been interrupted. A new
// compressor or memory is tested by standing in the catalog; parameters for it have to be chosen in exchange_cases.cpp.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <map>
#include <mutex>

#include "collectives/topologies/catalog.hpp"
#include "exchange_cases.hpp"
#include "exchange_model.hpp"
#include "ranks.hpp"
#include "tests/compressors/tensors.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/exchange/topology_fit.hpp"

namespace weir::training::testing {
namespace {

using compressors::test::gaussian;
using compressors::test::same_bits;
using nlohmann::json;

constexpr std::uint64_t steps = 10;
constexpr std::uint64_t half_way = 5;
constexpr std::uint64_t seed = 99;
constexpr BucketSizes bucket_sizes = {.first_bytes = 200, .bytes = 200};

struct Parameter {
  const char* name;
  std::vector<std::int64_t> shape;
};

/// Exchanged from the last to the first, in buckets of 210, 1023, 18 + 4800 and 135 entries: each bucket follows on one
/// of another size. No size is a multiple of a block's or chunk's.
const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = {
      {"convolution", {5, 3, 3, 3}}, {"bias", {7}},   {"tall", {1200, 4}}, {"small", {2, 9}},
      {"matrix", {33, 31}},          {"scale", {11}}, {"wide", {3, 70}},
  };
  return all;
}

/// What the optimizer and the position in the data are like at a step: the learning rate changes and is zero once,
/// warm-ups come to their end.
Step step_at(std::uint64_t number, std::uint32_t rank) {
  constexpr std::array<double, steps> learning_rates = {0.1, 0.1, 0.3, 0.3, 0, 0.2, 0.2, 0.05, 0, 0.1};
  return {.number = number,
          .epoch = 0.4 * static_cast<double>(number),
          .learning_rate = learning_rates[number],
          .vote = static_cast<float>(rank + 1)};
}

/// The gradients of a rank at a step, which differ in size, too; the same in every case. Not defined where nothing of
/// the loss depends on a parameter.
const Tensors& gradients_of(std::uint64_t step, std::uint32_t rank) {
  static std::map<std::pair<std::uint64_t, std::uint32_t>, Tensors> made;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Tensors& gradients = made[{step, rank}];
  if (!gradients.empty()) return gradients;
  for (std::size_t p = 0; p < parameters().size(); ++p) {
    const auto& shape = parameters()[p].shape;
    if (step == 3 && rank == 0 && p < 2) {
      gradients.emplace_back();
      continue;
    }
    const at::Tensor flat = gaussian(c10::multiply_integers(shape), (step * 16 + rank) * 16 + p);
    gradients.push_back((flat * (1 + 0.5F * static_cast<float>(rank))).reshape(shape));
  }
  return gradients;
}

std::vector<NamedTensor> cloned(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copy;
  for (const auto& [name, tensor] : state) copy.push_back({name, tensor.clone()});
  return copy;
}

void expect_zero_elsewhere(const Mean& mean) {
  at::Tensor rest = mean.tensor.clone().view(-1);
  for (const auto position : mean.positions) rest.data_ptr<float>()[position] = 0;
  EXPECT_EQ(rest.count_nonzero().item<std::int64_t>(), 0);
}

/// What a rank had of a training.
struct Outcome {
  std::map<std::uint64_t, Tensors> means;  ///< by step
  std::vector<NamedTensor> compressor;     ///< state when half of the steps were done
  std::vector<NamedTensor> memory;
  std::vector<NamedTensor> exchange;
  std::vector<Bucket> buckets;
  std::string failure;
};

/// How the ranks are connected.
struct Way {
  collectives::TopologyChoice topology = {};
  std::uint32_t ranks_per_host = 1;
};

/// What is trained, and over what.
struct Training {
  const ExchangeCase& of;
  Way way = {};
};

/// The part of a training of one rank from step `first`, from the state in `before`, if there is one.
Outcome train(const Training& training, collectives::Fabric& group, std::uint64_t first, const Outcome* before) {
  Outcome outcome;
  compressors::Compression compression = training.of.make();
  if (before != nullptr) {
    compression.compressor->restore(before->compressor).value();
    compression.memory->restore(before->memory).value();
  }
  std::vector<NamedTensor> leaves;
  for (const auto& [name, shape] : parameters()) leaves.push_back({name, at::ones(shape).set_requires_grad(true)});
  Exchange exchange(leaves, std::move(compression), group,
                    {.seed = seed, .bucket_sizes = bucket_sizes, .topology = training.way.topology});
  GradientTrigger gradients(exchange, leaves);
  if (before != nullptr) exchange.restore(before->exchange).value();
  outcome.buckets.assign(exchange.buckets().begin(), exchange.buckets().end());
  const auto votes = static_cast<float>(group.size() * (group.size() + 1) / 2);
  for (std::uint64_t step = first; step < steps; ++step) {
    if (step == half_way) {
      outcome.compressor = cloned(exchange.compression().compressor->save());
      outcome.memory = cloned(exchange.compression().memory->save());
      outcome.exchange = cloned(exchange.save());
    }
    gradients.begin(step_at(step, group.rank()));
    at::Tensor loss = at::zeros({});
    for (std::size_t p = 0; p < leaves.size(); ++p) {
      const at::Tensor& gradient = gradients_of(step, group.rank())[p];
      if (gradient.defined()) loss = loss + (leaves[p].tensor * gradient).sum();
    }
    loss.backward();
    const auto agreed = gradients.finish();
    if (!agreed || agreed->votes != votes) {
      outcome.failure = "step " + std::to_string(step) + ": " + (agreed ? "votes" : agreed.error().message());
      break;
    }
    for (const Mean& mean : exchange.means()) {
      if (mean.sparse) expect_zero_elsewhere(mean);
      outcome.means[step].push_back(mean.tensor.clone());
    }
  }
  return outcome;
}

std::vector<Outcome> train_all(const Training& training, std::uint32_t ranks, std::uint64_t first = 0,
                               const std::vector<Outcome>& before = {}) {
  auto group = collectives::in_process_group(ranks, 3, {.ranks_per_host = training.way.ranks_per_host});
  std::vector<Outcome> outcomes(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    try {
      outcomes[rank] = train(training, *group[rank], first, before.empty() ? nullptr : &before[rank]);
    } catch (const std::exception& thrown) {
      outcomes[rank].failure = thrown.what();
    }
    group[rank]->close();
  });
  return outcomes;
}

/// Where two lists of tensors are not the same bits, and by how much.
std::string difference(const Tensors& is, const Tensors& should_be) {
  std::string found;
  for (std::size_t p = 0; p < should_be.size(); ++p) {
    if (same_bits(is[p], should_be[p])) continue;
    const auto largest = (is[p] - should_be[p]).abs().max().item<float>();
    found += std::string(parameters()[p].name) + " differs by up to " + std::to_string(largest) + "; ";
  }
  return found;
}

class ExchangeContract : public ::testing::TestWithParam<ExchangeCase> {
 protected:
  /// Runs `check` for groups of several sizes, with what a training of each gave.
  void for_each_group(const std::function<void(const std::vector<Outcome>&)>& check) {
    for (const std::uint32_t ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      const auto outcomes = train_all({GetParam()}, ranks);
      for (const auto& outcome : outcomes) ASSERT_EQ(outcome.failure, "");
      check(outcomes);
    }
  }

  /// Whether all ranks have the same means, and those of the model.
  void expect_what_the_algorithm_gives(const std::vector<Outcome>& outcomes, const Way& way) {
    const std::size_t ranks = outcomes.size();
    ExchangeModel model(GetParam(), static_cast<std::uint32_t>(ranks), outcomes[0].buckets, way.topology,
                        way.ranks_per_host);
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::vector<Tensors> gradients(ranks);
      std::vector<float> votes;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t p = 0; p < parameters().size(); ++p) {
          const at::Tensor& gradient = gradients_of(step, rank)[p];
          gradients[rank].push_back(gradient.defined() ? gradient : at::zeros(parameters()[p].shape));
        }
        votes.push_back(step_at(step, rank).vote);
      }
      const auto at = step_at(step, 0);
      const auto expected = model.step(
          {.seed = seed, .step = at.number, .epoch = at.epoch, .learning_rate = at.learning_rate}, gradients, votes);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Tensors& means = outcomes[rank].means.at(step);
        ASSERT_EQ(difference(means, outcomes[0].means.at(step)), "") << "rank " << rank << " and 0, step " << step;
        ASSERT_EQ(difference(means, expected[rank]), "") << "rank " << rank << " and the model, step " << step;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Catalog, ExchangeContract, ::testing::ValuesIn(exchange_cases()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(ExchangeContract, GivesEveryRankWhatTheAlgorithmGives) {
  for_each_group([&](const std::vector<Outcome>& outcomes) { expect_what_the_algorithm_gives(outcomes, {}); });
}

/// Every topology that carries the compressor, but for the ring.
std::vector<Way> other_ways(const ExchangeCase& of) {
  const auto compressor = of.make().compressor;
  std::vector<Way> ways;
  for (const auto& topology : collectives::topologies()) {
    if (topology.name == "ring" || topology_misfit(topology, *compressor)) continue;
    ways.push_back({{.name = std::string(topology.name)}});
    if (topology.has_servers) ways.push_back({{.name = std::string(topology.name), .servers = 2}});
    if (topology.by_hosts) ways.push_back({{.name = std::string(topology.name)}, 2});
  }
  return ways;
}

TEST_P(ExchangeContract, GivesWhatTheAlgorithmGivesOverEveryTopology) {
  for (const Way& way : other_ways(GetParam())) {
    SCOPED_TRACE(way.topology.name + ", servers " + std::to_string(way.topology.servers) + ", ranks per host " +
                 std::to_string(way.ranks_per_host));
    const std::uint32_t ranks = collectives::find_topology(way.topology.name)->fits(5) ? 5 : 4;
    const auto outcomes = train_all({GetParam(), way}, ranks);
    for (const auto& outcome : outcomes) ASSERT_EQ(outcome.failure, "");
    expect_what_the_algorithm_gives(outcomes, way);
  }
}

TEST_P(ExchangeContract, GoesOnFromSavedStateBitForBit) {
  const auto expect_the_same = [&](const Training& training, const std::vector<Outcome>& outcomes) {
    const auto resumed = train_all(training, static_cast<std::uint32_t>(outcomes.size()), half_way, outcomes);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      ASSERT_EQ(resumed[rank].failure, "");
      for (std::uint64_t step = half_way; step < steps; ++step) {
        ASSERT_EQ(difference(resumed[rank].means.at(step), outcomes[rank].means.at(step)), "") << "step " << step;
      }
    }
  };
  for_each_group([&](const std::vector<Outcome>& outcomes) { expect_the_same({GetParam()}, outcomes); });
  std::vector<Way> ways{{{.name = "hierarchical"}, 2}};
  const auto compressor = GetParam().make().compressor;
  for (const char* name : {"two_hop", "multi_hop", "split_gather"}) {
    if (!topology_misfit(*collectives::find_topology(name), *compressor)) ways.push_back({{.name = name}});
  }
  for (const Way& way : ways) {
    const Training training{GetParam(), way};
    const auto outcomes = train_all(training, collectives::find_topology(way.topology.name)->fits(3) ? 3 : 4);
    for (const auto& outcome : outcomes) ASSERT_EQ(outcome.failure, "");
    expect_the_same(training, outcomes);
  }
}

TEST(ExchangeCases, BucketsGrowAndShrink) {
  const ExchangeCase of = {"topk", json::object(), "residual", json::object(), {}};
  std::vector<std::vector<std::uint32_t>> coded;
  std::vector<std::vector<std::uint32_t>> plain;
  const auto outcomes = train_all({of}, 1);
  for (const auto& bucket : outcomes[0].buckets) (bucket.coded ? coded : plain).push_back(bucket.parameters);
  EXPECT_EQ(coded, (std::vector<std::vector<std::uint32_t>>{{6}, {4}, {3, 2}, {0}}));
  EXPECT_EQ(plain, (std::vector<std::vector<std::uint32_t>>{{5, 1}}));
}

TEST(ExchangeCases, StandForTheWholeCatalog) {
  std::vector<std::string> compressors;
  for (const auto& [name, sets] : compressor_params()) compressors.push_back(name);
  std::vector<std::string> memories;
  for (const auto& [name, sets] : memory_params()) memories.push_back(name);
  const auto names = [](const auto& entries) {
    std::vector<std::string> all;
    for (const auto& entry : entries) all.push_back(entry.name);
    return all;
  };
  EXPECT_THAT(compressors, ::testing::UnorderedElementsAreArray(names(compressors::builtin().compressors())));
  EXPECT_THAT(memories, ::testing::UnorderedElementsAreArray(names(compressors::builtin().memories())));
}

/// Where there are parameters: that there are two sets at least, none of them the defaults, and for every parameter one
/// in which it is not its default.
void expect_every_parameter_away_from_its_default(const json& schema, const std::vector<json>& sets) {
  const json& properties = schema.at("properties");
  EXPECT_GE(sets.size(), properties.empty() ? 1u : 2u);
  std::vector<std::string> untried;
  for (const auto& [name, property] : properties.items()) {
    const auto away = [&](const json& set) { return set.contains(name) && set.at(name) != property.at("default"); };
    if (std::ranges::none_of(sets, away)) untried.push_back(name);
  }
  EXPECT_THAT(untried, ::testing::IsEmpty());
  for (const json& set : sets) {
    const auto away = [&](const auto& item) { return item.value() != properties.at(item.key()).at("default"); };
    const auto items = set.items();
    EXPECT_EQ(std::any_of(items.begin(), items.end(), away), !properties.empty()) << set;
  }
}

TEST(ExchangeCases, TryEveryParameterAwayFromItsDefault) {
  for (const auto& entry : compressors::builtin().compressors()) {
    SCOPED_TRACE(entry.name);
    expect_every_parameter_away_from_its_default(entry.schema(), compressor_params().at(entry.name));
  }
  for (const auto& entry : compressors::builtin().memories()) {
    SCOPED_TRACE(entry.name);
    std::vector<json> sets;
    for (const auto& set : memory_params().at(entry.name)) sets.push_back(set.params);
    expect_every_parameter_away_from_its_default(entry.schema(), sets);
  }
}

TEST(ExchangeCases, TryEveryPairTwiceThatHasParameters) {
  std::map<std::string, std::vector<const ExchangeCase*>> pairs;
  const auto cases = exchange_cases();
  for (const auto& it : cases) pairs[it.compressor + " with " + it.memory].push_back(&it);
  for (const auto& [pair, of] : pairs) {
    const bool any = !of[0]->params.empty() || !of[0]->memory_params.empty();
    EXPECT_GE(of.size(), any ? 2u : 1u) << pair;
  }
}

}  // namespace
}  // namespace weir::training::testing
