// That an exchange goes on from the state of one over another topology, in other buckets or on other hosts, and nothing
// that was not sent yet gets lost.

#include "training/exchange/handover.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "ranks.hpp"
#include "tests/compressors/tensors.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training::testing {
namespace {

using compressors::test::gaussian;
using ::testing::HasSubstr;

constexpr std::uint32_t ranks = 4;
constexpr std::uint64_t half_way = 4;
constexpr std::uint64_t steps = 8;
const std::vector<std::vector<std::int64_t>> shapes = {{33, 31}, {9}, {60, 7}, {40, 5}};

struct Coding {
  const char* compressor;
  nlohmann::json params;
  const char* memory;
  double momentum = 0;
  double learning_rate = 0.1;
};

/// How the ranks are connected.
struct Way {
  const char* topology;
  std::uint32_t ranks_per_host = 1;
  std::uint64_t bucket_bytes = 3000;
  std::uint32_t servers = 0;
  std::uint32_t hosts_in_turn = 0;  ///< if not 0: one rank after the other is of the next of so many hosts

  std::uint32_t hosts() const {
    return hosts_in_turn > 0 ? hosts_in_turn : (ranks + ranks_per_host - 1) / ranks_per_host;
  }
};

std::string name_of(const Way& way) {
  return std::string(way.topology) + "/" + std::to_string(way.ranks_per_host) + "/" + std::to_string(way.bucket_bytes) +
         "/" + std::to_string(way.servers) + "/" + std::to_string(way.hosts_in_turn);
}

compressors::Compression make(const Coding& coding) {
  static const nlohmann::json none;
  return compressors::builtin()
      .make({.compressor = coding.compressor,
             .params = coding.params,
             .memory = coding.memory,
             .memory_params = none,
             .setting = {.momentum = coding.momentum}})
      .value();
}

std::vector<at::Tensor> zeros() {
  std::vector<at::Tensor> all;
  for (const auto& shape : shapes) all.push_back(at::zeros(shape));
  return all;
}

/// What a rank keeps, and what it has seen.
struct Outcome {
  std::vector<NamedTensor> compressor;
  std::vector<NamedTensor> memory;
  std::vector<NamedTensor> exchange;
  std::vector<at::Tensor> held_first = zeros();     ///< by parameter: its part of the mean that nobody has sent yet
  std::vector<at::Tensor> held = zeros();           ///< after the last step
  std::vector<at::Tensor> momenta_first = zeros();  ///< by parameter: its part of the mean of the momenta
  std::vector<at::Tensor> momenta = zeros();
  std::vector<at::Tensor> taken = zeros();  ///< the sum of the means
  std::string failure;
  boost::system::error_code code;
};

std::vector<NamedTensor> cloned(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copy;
  for (const auto& [name, tensor] : state) copy.push_back({name, tensor.clone()});
  return copy;
}

/// Of what the rank keeps in `store`, if there is one: its part of the mean, by parameter.
std::vector<at::Tensor> part_in_mean(const Exchange& exchange, const compressors::TensorStore* store) {
  std::vector<at::Tensor> all = zeros();
  const auto layout = layout_in(exchange.save()).value();
  for (std::uint32_t p = 0; store != nullptr && layout->encodes && p < shapes.size(); ++p) {
    if (const auto own = store->find({.tensor = p})) all[p] += *own / static_cast<double>(layout->world);
  }
  return all;
}

std::vector<at::Tensor> held_by(const Exchange& exchange) {
  std::vector<at::Tensor> all = part_in_mean(exchange, exchange.compression().memory->unsent());
  const auto state = exchange.save();
  for (std::uint32_t p = 0; p < shapes.size(); ++p) {
    const auto left_out = Owner::residual_in(state, std::to_string(p), all[p].numel()).value();
    if (!left_out) continue;
    const auto first = static_cast<std::int64_t>(left_out->first_entry);
    all[p].view(-1).narrow(0, first, left_out->values.numel()) += left_out->values.view(-1);
  }
  return all;
}

at::Tensor gradient_of(std::uint64_t step, std::uint32_t rank, std::size_t parameter) {
  return gaussian(c10::multiply_integers(shapes[parameter]), (step * 16 + rank) * 16 + parameter)
      .view(shapes[parameter]);
}

void train(const Coding& coding, const Way& way, collectives::Fabric& fabric, std::uint64_t first, std::uint64_t last,
           const Outcome* before, Outcome& outcome) {
  auto compression = make(coding);
  if (before != nullptr) {
    compression.compressor->restore(before->compressor).value();
    compression.memory->restore(before->memory).value();
  }
  std::vector<NamedTensor> tensors;
  for (std::size_t p = 0; p < shapes.size(); ++p) {
    tensors.push_back({std::to_string(p), at::ones(shapes[p])});
  }
  Exchange::Options options{.seed = 3,
                            .bucket_sizes = {.first_bytes = way.bucket_bytes, .bytes = way.bucket_bytes},
                            .topology = {.name = way.topology, .servers = way.servers}};
  options.make_compression = [&coding] { return make(coding); };
  // With links this slow, only bytes matter.
  const std::uint32_t hosts = way.hosts() == ranks ? 0 : way.hosts();
  options.measure_links = [hosts](collectives::Fabric&) {
    return GroupLinks{.links = {.latency_seconds = 1, .seconds_per_byte = 1},
                      .hosts = {.count = hosts, .ranks_max = 2, .ends_max = 1, .links = {}}};
  };
  Exchange exchange(tensors, std::move(compression), fabric, options);
  if (before != nullptr) {
    if (auto restored = exchange.restore(before->exchange); !restored) {
      outcome.failure = restored.error().message();
      outcome.code = restored.error().code;
      return;
    }
    outcome.held_first = held_by(exchange);
    outcome.momenta_first = part_in_mean(exchange, exchange.compression().memory->momenta());
  }
  for (std::uint64_t step = first; step < last; ++step) {
    exchange.begin(
        {.number = step, .epoch = 100.0 + static_cast<double>(step), .learning_rate = coding.learning_rate, .vote = 0});
    for (auto p = static_cast<std::uint32_t>(shapes.size()); p-- > 0;) {
      exchange.give(p, gradient_of(step, fabric.rank(), p));
    }
    exchange.finish().value();
    for (std::size_t p = 0; p < shapes.size(); ++p) outcome.taken[p] += exchange.means()[p].tensor;
  }
  outcome.held = held_by(exchange);
  outcome.momenta = part_in_mean(exchange, exchange.compression().memory->momenta());
  outcome.compressor = cloned(exchange.compression().compressor->save());
  outcome.memory = cloned(exchange.compression().memory->save());
  outcome.exchange = cloned(exchange.save());
}

std::vector<Outcome> train_all(const Coding& coding, const Way& way, std::uint64_t first, std::uint64_t last,
                               const std::vector<Outcome>& before = {}) {
  auto group = collectives::in_process_group(
      ranks, 3, {.ranks_per_host = way.ranks_per_host, .hosts_in_turn = way.hosts_in_turn});
  std::vector<Outcome> outcomes(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    train(coding, way, *group[rank], first, last, before.empty() ? nullptr : &before[rank], outcomes[rank]);
    group[rank]->close();
  });
  return outcomes;
}

at::Tensor sum_of(const std::vector<Outcome>& outcomes, std::vector<at::Tensor> Outcome::*what, std::size_t parameter) {
  at::Tensor sum = at::zeros(shapes[parameter]);
  for (const Outcome& outcome : outcomes) sum += (outcome.*what)[parameter];
  return sum;
}

at::Tensor given(std::uint64_t first, std::uint64_t last, std::size_t parameter) {
  at::Tensor sum = at::zeros(shapes[parameter]);
  for (std::uint64_t step = first; step < last; ++step) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) sum += gradient_of(step, rank, parameter) / 4.0;
  }
  return sum;
}

void expect_close(const at::Tensor& is, const at::Tensor& should, const std::string& what) {
  EXPECT_TRUE(is.allclose(should, 1e-4, 1e-5)) << what << " differs by " << (is - should).abs().max().item<float>();
}

/// That what ranks have not sent is the same before and after the change, and nothing of all gradients is lost later.
void expect_nothing_lost(const Coding& coding, const Way& from, const Way& to) {
  SCOPED_TRACE(std::string(coding.compressor) + ", " + coding.memory + ": " + name_of(from) + " -> " + name_of(to));
  const auto first = train_all(coding, from, 0, half_way);
  const auto second = train_all(coding, to, half_way, steps, first);
  for (const Outcome& outcome : second) ASSERT_EQ(outcome.failure, "");
  for (std::size_t p = 0; p < shapes.size(); ++p) {
    const std::string parameter = "parameter " + std::to_string(p);
    for (const Outcome& outcome : second) EXPECT_TRUE(outcome.taken[p].equal(second[0].taken[p])) << parameter;
    const at::Tensor held = sum_of(first, &Outcome::held, p);
    if (p == 0) {  // the largest: some compressors send all of the small ones
      EXPECT_GT(held.abs().max().item<float>(), 0) << parameter;
    }
    expect_close(sum_of(second, &Outcome::held_first, p), held, "what is not sent of " + parameter);
    expect_close(sum_of(second, &Outcome::momenta_first, p), sum_of(first, &Outcome::momenta, p),
                 "the momentum of " + parameter);
    expect_close(second[0].taken[p] + sum_of(second, &Outcome::held, p), given(half_way, steps, p) + held,
                 "what is sent of " + parameter);
  }
}

const Coding topk{"topk", {{"ratio", 0.05}}, "residual"};
const Coding dgc{"dgc", {{"ratio", 0.05}, {"warmup_epochs", 0}}, "dgc"};
const Coding qsgd{"qsgd", nlohmann::json::object(), "residual"};

bool fits_hops(const Coding& coding) { return !compressors::no_hops(*make(coding).compressor); }

class HandOver : public ::testing::TestWithParam<Coding> {};

TEST_P(HandOver, LosesNothingBetweenTopologies) {
  const bool splits = make(GetParam()).compressor->traits().fits_split();
  std::vector<Way> ways{{.topology = "ring"},
                        {.topology = "two_hop"},
                        {.topology = "parameter_server"},
                        {.topology = "parameter_server", .servers = 2},
                        {.topology = "auto"}};
  if (splits) ways.push_back({.topology = "split_gather"});
  if (fits_hops(GetParam())) ways.push_back({.topology = "multi_hop"});
  for (const Way& from : ways) {
    for (const Way& to : ways) expect_nothing_lost(GetParam(), from, to);
  }
}

TEST_P(HandOver, LosesNothingBetweenBuckets) {
  for (const char* topology : {"two_hop", "multi_hop", "auto"}) {
    if (topology == std::string("multi_hop") && !fits_hops(GetParam())) continue;
    expect_nothing_lost(GetParam(), {.topology = topology}, {.topology = topology, .bucket_bytes = 100'000});
    expect_nothing_lost(GetParam(), {.topology = topology, .bucket_bytes = 100'000}, {.topology = topology});
  }
}

TEST_P(HandOver, LosesNothingBetweenHosts) {
  const std::vector<Way> ways{
      {.topology = "hierarchical", .ranks_per_host = 2}, {.topology = "hierarchical"},
      {.topology = "ring", .ranks_per_host = 2},         {.topology = "two_hop", .ranks_per_host = 2},
      {.topology = "auto", .ranks_per_host = 2},         {.topology = "auto"}};
  for (const Way& from : ways) {
    for (const Way& to : ways) expect_nothing_lost(GetParam(), from, to);
  }
}

INSTANTIATE_TEST_SUITE_P(Compressors, HandOver, ::testing::Values(topk, dgc, qsgd),
                         [](const auto& info) { return std::string(info.param.compressor); });

std::vector<Outcome> resumed(const Coding& coding, const Way& from, const Way& to) {
  return train_all(coding, to, half_way, steps, train_all(coding, from, 0, half_way));
}

/// That after dense rounds all ranks go on with the same means, which are those of ranks that go on as they were.
void expect_same_means(const Coding& coding, const Way& from, const Way& to) {
  SCOPED_TRACE(name_of(from) + " -> " + name_of(to));
  const bool rounds = from.topology == std::string("auto") || to.topology == std::string("auto");  // to bfloat16
  const float tolerance = rounds ? 0.1F : 1e-4F;
  const auto first = train_all(coding, from, 0, half_way);
  const auto undisturbed = train_all(coding, from, half_way, steps, first);
  const auto second = train_all(coding, to, half_way, steps, first);
  for (const Outcome& outcome : second) {
    ASSERT_EQ(outcome.failure, "");
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      const std::string parameter = "the mean of parameter " + std::to_string(p);
      EXPECT_TRUE(outcome.taken[p].equal(second[0].taken[p])) << parameter;
      EXPECT_LT((outcome.taken[p] - undisturbed[0].taken[p]).abs().max().item<float>(), tolerance) << parameter;
    }
  }
}

// As long as gradients go dense, the momentum is that of the mean, and whoever averages it must have the same.
const Coding dense_dgc{"dgc", {{"ratio", 0.05}, {"warmup_epochs", 1000}, {"warmup_dense", 1}}, "dgc", 0.9};

TEST(HandOver, GoesOnFromDenseRoundsOnOtherHosts) {
  const std::vector<Way> ways{{.topology = "hierarchical", .ranks_per_host = 2},
                              {.topology = "hierarchical", .ranks_per_host = 3},
                              {.topology = "hierarchical", .hosts_in_turn = 2},
                              {.topology = "hierarchical", .ranks_per_host = 4},
                              {.topology = "hierarchical"},
                              {.topology = "auto", .ranks_per_host = 2},
                              {.topology = "ring", .ranks_per_host = 2}};
  for (const Way& from : ways) {
    for (const Way& to : ways) expect_same_means(dense_dgc, from, to);
  }
}

TEST(HandOver, GoesOnFromDenseRoundsWithoutOwners) {
  for (const char* topology : {"two_hop", "parameter_server", "auto"}) {
    expect_same_means(dense_dgc, {.topology = topology}, {.topology = "ring"});
    expect_same_means(dense_dgc, {.topology = topology}, {.topology = topology, .bucket_bytes = 100'000});
    expect_same_means(dense_dgc, {.topology = topology}, {.topology = "hierarchical", .ranks_per_host = 2});
  }
}

/// The mean of the ranks' estimates is then what all of them apply.
TEST(HandOver, EstimatesOfEf21TakeBackWhatOwnersHaveLeftOut) {
  const Coding ef21{"topk", {{"ratio", 0.05}}, "ef21"};
  const auto all = resumed(ef21, {.topology = "two_hop"}, {.topology = "ring"});
  for (const Outcome& outcome : all) ASSERT_EQ(outcome.failure, "");
  for (const std::string parameter : {"0", "2", "3"}) {
    const auto kept = [&](const Outcome& outcome, const std::string& name) {
      return std::ranges::find(outcome.memory, name + "." + parameter, &NamedTensor::name)->tensor;
    };
    at::Tensor mean = at::zeros_like(kept(all[0], "own"));
    for (const Outcome& outcome : all) mean += kept(outcome, "own") / static_cast<double>(ranks);
    expect_close(mean, kept(all[0], "shared"), "the estimate of parameter " + parameter);
  }
}

/// What is owed to the weights stays the same when the learning rate falls while others begin to encode: some for the
/// first time, and some who have an older rate.
TEST(HandOver, WhatIsOwedToTheWeightsKeepsItsLearningRate) {
  Coding coding{"topk", {{"ratio", 0.05}}, "efsignsgd"};
  const Way threes{.topology = "hierarchical", .ranks_per_host = 3};
  const Way pairs{.topology = "hierarchical", .ranks_per_host = 2};
  const std::vector<Way> ways{pairs, threes, {.topology = "ring"}, {.topology = "hierarchical", .hosts_in_turn = 2}};
  auto before = train_all(coding, threes, 0, half_way);
  for (std::size_t change = 0; change < ways.size(); ++change) {
    SCOPED_TRACE(name_of(ways[change]));
    coding.learning_rate /= 2;
    const std::uint64_t first = half_way * (change + 1);
    auto after = train_all(coding, ways[change], first, first + half_way, before);
    for (const Outcome& outcome : after) ASSERT_EQ(outcome.failure, "");
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      expect_close(after[0].taken[p] + sum_of(after, &Outcome::held, p),
                   given(first, first + half_way, p) + 2 * sum_of(before, &Outcome::held, p),
                   "what is sent of parameter " + std::to_string(p));
    }
    before = std::move(after);
  }
}

TEST(HandOver, SaysWhatWouldGetLost) {
  const Coding bare{"topk", {{"ratio", 0.05}}, "none"};
  for (const Outcome& outcome : resumed(bare, {.topology = "two_hop"}, {.topology = "ring"})) {
    EXPECT_EQ(outcome.code, Errc::conflict);
    EXPECT_THAT(outcome.failure, HasSubstr("memory \"none\" keeps nothing: set exchange.topology"));
  }
  for (const Outcome& outcome : resumed(bare, {.topology = "two_hop"}, {.topology = "auto"})) {
    EXPECT_EQ(outcome.failure, "");  // its owners take over
  }
  const Coding hops{"qsgd", nlohmann::json::object(), "none"};
  for (const Outcome& outcome : resumed(hops, {.topology = "multi_hop"}, {.topology = "two_hop"})) {
    EXPECT_EQ(outcome.code, Errc::conflict) << "its owners would have others' shares, too";
    EXPECT_THAT(outcome.failure, HasSubstr("memory \"none\" keeps nothing: set exchange.topology"));
  }
}

TEST(HandOver, SaysWhoHasWhatOthersWouldNeed) {
  const Coding ef21{"topk", {{"ratio", 0.05}}, "ef21"};
  for (const Outcome& outcome :
       resumed(ef21, {.topology = "ring"}, {.topology = "hierarchical", .ranks_per_host = 2})) {
    EXPECT_EQ(outcome.code, Errc::conflict);
    EXPECT_THAT(outcome.failure, HasSubstr("here 2 workers encode"));
  }
  for (const Outcome& outcome : resumed(ef21, {.topology = "ring"}, {.topology = "butterfly"})) {
    EXPECT_EQ(outcome.failure, "");
  }
}

/// Where others encode, all ranks forget what only made their compressor better, and the residuals are divided.
TEST(HandOver, CompressorsBeginAnewWhereOthersEncode) {
  const Coding powersgd{"powersgd", {{"start_step", 0}}, "powersgd"};
  const Coding sidco{"sidco", {{"ratio", 0.05}}, "residual"};
  const Coding casq{"casq", nlohmann::json::object(), "residual"};
  const Way ring{.topology = "ring", .ranks_per_host = 2};
  const Way automatic{.topology = "auto", .ranks_per_host = 2};
  const Way hosts{.topology = "hierarchical", .ranks_per_host = 2};
  const Way other_hosts{.topology = "hierarchical", .hosts_in_turn = 2};
  for (const Coding& coding : {powersgd, sidco, casq}) {
    for (const Way& way : {ring, other_hosts}) {
      expect_nothing_lost(coding, way, hosts);
      expect_nothing_lost(coding, hosts, way);
    }
  }
  for (const Coding& coding : {powersgd, sidco}) {
    expect_nothing_lost(coding, ring, automatic);
    expect_nothing_lost(coding, automatic, ring);
  }
}

TEST(HandOver, ReadsOnlyWhatALayoutSays) {
  const Layout layout{.world = 4, .encodes = false, .owners = 2, .regions = true, .bucket_of = {1, 0, 0}};
  EXPECT_EQ(layout_in(std::vector{saved(layout)}).value(), layout);
  const Layout by_hops{.world = 4, .owners = 4, .hops = true, .bucket_of = {0}};
  EXPECT_EQ(layout_in(std::vector{saved(by_hops)}).value(), by_hops);
  EXPECT_FALSE(layout_in({}).value());
  for (const at::Tensor& wrong : {at::ones({8}), at::ones({2}, at::kLong), at::full({8}, -1, at::kLong),
                                  at::zeros({8}, at::kLong), at::ones({2, 4}, at::kLong)}) {
    EXPECT_EQ(layout_in(std::vector{NamedTensor{"layout", wrong}}).error().code, Errc::malformed);
  }
}

}  // namespace
}  // namespace weir::training::testing
