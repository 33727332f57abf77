#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "collectives/gossip/graph.hpp"
#include "compressors/catalog.hpp"
#include "mode_runs.hpp"
#include "protocol/traffic.hpp"
#include "tests/protocol/part_of.hpp"

namespace weir::training {
namespace {

using testing::cloned;
using testing::refusal;
using testing::run_ranks;
using testing::same;
using testing::small_job;
using testing::train;
using testing::Watcher;

protocol::JobSpec gossip_job(const std::string& compressor, nlohmann::json params) {
  auto spec = small_job(compressor);
  spec.training.mode = {"gossip", std::move(params)};
  if (compressor != "topk" && compressor != "dgc") spec.compression.compressor.params = nlohmann::json::object();
  return spec;
}

double distance_of(const testing::Outcome& outcome, std::size_t step) {
  double squares = 0;
  for (std::size_t p = 0; p < outcome.watchers[0].models[step].size(); ++p) {
    at::Tensor mean = at::zeros_like(outcome.watchers[0].models[step][p], at::kDouble);
    for (const auto& watcher : outcome.watchers) mean += watcher.models[step][p];
    mean /= static_cast<double>(outcome.watchers.size());
    for (const auto& watcher : outcome.watchers) {
      squares += (watcher.models[step][p] - mean).square().sum().item<double>();
    }
  }
  return std::sqrt(squares / static_cast<double>(outcome.watchers.size()));
}

/// D-PSGD, all ranks in one place, with the job's optimizer: the models of all ranks after each step.
std::vector<std::vector<std::vector<at::Tensor>>> dpsgd(const protocol::JobSpec& spec, std::uint32_t ranks,
                                                        const collectives::Graph& graph, double gamma) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) replicas.push_back(Replica::make(spec, rank, ranks).value());
  std::vector<std::vector<std::vector<at::Tensor>>> models;
  for (std::uint64_t step = 0; step < replicas[0]->length.steps_total; ++step) {
    std::vector<std::vector<at::Tensor>> before;
    for (auto& one : replicas) {
      before.push_back(cloned(one->model->parameters()));
      const auto batch = one->examples->batch(one->sampler.examples(step));
      at::cross_entropy_loss(one->model->forward(batch.input), batch.target).backward();
      std::vector<Mean> gradients;
      for (const auto& [name, tensor] : one->model->parameters()) {
        gradients.push_back({tensor.grad().clone(), false, {}});
        at::Tensor(tensor).mutable_grad().reset();
      }
      one->optimizer->step(gradients, one->learning_rate);
    }
    const at::NoGradGuard no_grad;
    models.emplace_back();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t p = 0; p < before[rank].size(); ++p) {
        at::Tensor parameter = replicas[rank]->model->parameters()[p].tensor;
        for (const auto other : graph.neighbours(rank)) {
          parameter.add_(before[other][p] - before[rank][p], gamma * graph.mixing_weight(rank, other));
        }
      }
      models.back().push_back(cloned(replicas[rank]->model->parameters()));
    }
  }
  return models;
}

TEST(Gossip, WithoutCompressionIsDpsgdForAnyNumberOfRanks) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    for (const std::string graph : {"ring", "torus", "complete"}) {
      auto spec = gossip_job("none", {{"graph", graph}, {"consensus_step", ranks % 2 == 0 ? 1.0 : 0.6}});
      spec.training.max_steps = 8;
      spec.training.batch_size = 8;
      const auto outcome = train(spec, ranks);
      const auto expected =
          dpsgd(spec, ranks, collectives::make_graph(ranks, {.name = graph}).value(), ranks % 2 == 0 ? 1.0 : 0.6);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        ASSERT_TRUE(outcome.results[rank]) << outcome.results[rank].error().message();
        ASSERT_EQ(outcome.watchers[rank].models.size(), expected.size());
        for (std::size_t step = 0; step < expected.size(); ++step) {
          for (std::size_t p = 0; p < expected[step][rank].size(); ++p) {
            EXPECT_TRUE(outcome.watchers[rank].models[step][p].allclose(expected[step][rank][p], 1e-4, 1e-5))
                << ranks << " ranks, " << graph << ", step " << step + 1 << ", rank " << rank;
          }
        }
      }
    }
  }
}

TEST(Gossip, WhatRanksSendInStepsTheirNeighboursReceiveInSteps) {
  constexpr std::uint32_t ranks = 4;
  for (const std::string compressor : {"none", "topk"}) {
    auto spec = gossip_job(compressor, {{"graph", "ring"}});
    spec.training.max_steps = 6;
    auto group = collectives::in_process_group(ranks);
    std::vector<protocol::TrafficTotals> totals(ranks);
    run_ranks(ranks, [&](std::uint32_t rank) {
      auto replica = Replica::make(spec, rank, ranks).value();
      replica->join(*group[rank]).value();
      Watcher watcher;
      EXPECT_TRUE(replica->mode->train(*replica, watcher));
      totals[rank] = totals_of(*group[rank], replica->mode->traffic(*replica));
      replica.reset();
      group[rank]->close();
    });
    protocol::ByteCounts in_steps;
    for (const auto& of_rank : totals) {
      for (const auto& [name, bytes] : of_rank.phases) {
        if (name != "other") in_steps += bytes;
      }
    }
    EXPECT_GT(in_steps.sent, 0U) << compressor;
    EXPECT_EQ(in_steps.sent, in_steps.received) << compressor;
  }
}

/// Trains with a learning rate of almost nothing from models that differ, and returns the distance after each step.
std::vector<double> distances_of_mixing(const protocol::JobSpec& spec, std::uint32_t ranks) {
  auto group = collectives::in_process_group(ranks);
  testing::Outcome outcome{std::vector<Watcher>(ranks), {}, {}};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    replica->join(*group[rank]).value();
    {
      const at::NoGradGuard no_grad;
      for (const auto& parameter : replica->model->parameters()) {
        at::Tensor(parameter.tensor).add_(static_cast<double>(rank * rank % 7));
      }
    }
    (void)replica->mode->train(*replica, outcome.watchers[rank]).value();
    replica.reset();
    group[rank]->close();
  });
  std::vector<double> distances;
  for (std::size_t step = 0; step < outcome.watchers[0].models.size(); ++step) {
    distances.push_back(distance_of(outcome, step));
  }
  return distances;
}

TEST(Gossip, MixingContractsByTheSecondEigenvalue) {
  constexpr std::uint32_t ranks = 6;
  // Of a ring with weights of 1/3, (1 + 2 cos(2 pi / 6)) / 3; of a torus of 2 by 3 with weights of 1/4, where each has
  // two neighbours in its row and one in its column, (1 + 2 - 1) / 4.
  for (const auto& [graph, eigenvalue] :
       {std::pair<std::string, double>{"ring", 2.0 / 3}, {"torus", 0.5}, {"complete", 0.0}}) {
    auto spec = gossip_job("none", {{"graph", graph}});
    spec.training.optimizer = {"sgd", {{"lr", 1e-12}}};
    spec.training.max_steps = 8;
    const auto distances = distances_of_mixing(spec, ranks);
    ASSERT_EQ(distances.size(), 8U);
    for (std::size_t step = 1; step < 4; ++step) {
      EXPECT_LE(distances[step], eigenvalue * distances[step - 1] * 1.001 + 1e-4) << graph << ", step " << step;
    }
    if (graph == "ring") {
      EXPECT_NEAR(distances[7] / distances[6], eigenvalue, 0.02);
    }
  }
}

// As many as there are: what the catalog lets through must work without more ado.
TEST(Gossip, LearnsWithEveryCompressorAndKeepsTheRanksTogether) {
  std::set<std::string> refused;
  for (const auto& entry : compressors::builtin().compressors()) {
    for (const std::string graph : {"ring", "torus"}) {
      auto spec = gossip_job("none", {{"graph", graph}});
      spec.compression.compressor = {entry.name, nlohmann::json::object()};
      spec.training.epochs = 8;
      spec.training.batch_size = 8;
      spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0.5}}};
      if (!refusal(spec, 6).empty()) {
        refused.insert(entry.name);
        continue;
      }
      const auto outcome = train(spec, 6, {.average_every = 10});
      const auto& watcher = outcome.watchers[0];
      ASSERT_TRUE(outcome.results[0]) << entry.name << ": " << outcome.results[0].error().message();
      double last = 0;
      double first = 0;
      for (const auto& any : outcome.watchers) {
        last += any.records.back().loss;
        first += any.records.front().loss;
      }
      EXPECT_LT(last, 0.5 * first) << entry.name << " over " << graph;
      double squares = 0;
      for (const auto& tensor : watcher.common.back()) squares += tensor.square().sum().item<double>();
      for (const auto& record : watcher.records) {
        ASSERT_EQ(record.settled, record.consensus_distance.has_value());
        if (!record.consensus_distance) continue;
        EXPECT_GT(*record.consensus_distance, 0) << entry.name;
        EXPECT_LT(*record.consensus_distance, 0.5 * std::sqrt(squares)) << entry.name << ", step " << record.step;
        EXPECT_NEAR(*record.consensus_distance, distance_of(outcome, record.step - 1), 1e-3) << entry.name;
      }
    }
  }
  // terngrad takes a largest magnitude from all ranks, unless its scale is local.
  EXPECT_EQ(refused, (std::set<std::string>{"casq", "chunk", "demo", "powersgd", "signsgd", "signum", "terngrad"}));
}

TEST(Gossip, TheModelOfTheTrainingIsTheMeanOfAll) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto outcome = train(gossip_job(compressor, {{"graph", "torus"}}), 4, {.average_every = 5});
    const auto& first = outcome.watchers[0];
    EXPECT_EQ(first.settled(), (std::vector<std::uint64_t>{5, 10, 15, 16}));
    for (std::size_t i = 0; i < first.common.size(); ++i) {
      const std::size_t step = first.settled()[i] - 1;
      EXPECT_FALSE(same(first.models[step], outcome.watchers[1].models[step]));
      for (const auto& watcher : outcome.watchers) EXPECT_TRUE(same(watcher.common[i], first.common[i]));
      for (std::size_t p = 0; p < first.common[i].size(); ++p) {
        at::Tensor mean = at::zeros_like(first.common[i][p]);
        for (const auto& watcher : outcome.watchers) mean += watcher.models[step][p] / 4;
        EXPECT_TRUE(first.common[i][p].allclose(mean, 1e-5, 1e-6)) << compressor;
      }
    }
  }
}

protocol::JobSpec job_with_statistics(const std::string& compressor) {
  auto spec = testing::with_batch_norm(gossip_job(compressor, {{"graph", "ring"}}));
  spec.dataset.partition = "by_class";
  spec.training.epochs = 3;
  return spec;
}

at::Tensor floats_of(const protocol::Safetensors& file, const std::string& name) {
  const auto* stored = file.find(name);
  if (stored == nullptr) return {};
  at::Tensor values = at::empty({static_cast<std::int64_t>(stored->bytes.size() / sizeof(float))}, at::kFloat);
  std::memcpy(values.data_ptr(), stored->bytes.data(), stored->bytes.size());
  return values;
}

TEST(Gossip, TheModelOfTheTrainingHasTheMeanOfAllStatistics) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto outcome = train(job_with_statistics(compressor), 4);
    const auto file = protocol::read_safetensors(outcome.checkpoint()).value();
    std::size_t found = 0;
    for (const auto& tensor : file.tensors) {
      const std::string own = "rank.0.buffers.";
      if (!tensor.name.starts_with(own) || tensor.dtype != protocol::Dtype::f32) continue;
      const auto name = tensor.name.substr(own.size());
      const auto first = floats_of(file, tensor.name);
      at::Tensor mean = at::zeros_like(first);
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const auto of_rank = floats_of(file, "rank." + std::to_string(rank) + ".buffers." + name);
        ASSERT_TRUE(of_rank.defined()) << name << ", rank " << rank;
        EXPECT_EQ(of_rank.equal(first), rank == 0) << name << ": each is of a class of its own";
        mean += of_rank / 4;
      }
      const auto of_training = floats_of(file, "model." + name);
      ASSERT_TRUE(of_training.defined()) << name;
      EXPECT_TRUE(of_training.allclose(mean, 1e-4, 1e-6)) << compressor << ", " << name;
      ++found;
    }
    EXPECT_GT(found, 2U) << compressor;
  }
}

TEST(Gossip, ToEvaluateTheModelOfTheTrainingChangesNoRanksOwn) {
  const auto spec = job_with_statistics("none");
  const auto often = train(spec, 4, {.average_every = 1});
  const auto never = train(spec, 4);
  EXPECT_EQ(often.watchers[0].common.size(), 9U);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    for (std::size_t step = 0; step < 9; ++step) {
      EXPECT_TRUE(same(often.watchers[rank].models[step], never.watchers[rank].models[step])) << rank << ", " << step;
      EXPECT_TRUE(same(often.watchers[rank].buffers[step], never.watchers[rank].buffers[step])) << rank << ", " << step;
    }
  }
}

TEST(Gossip, AStoppedJobGoesOnWithEachRanksStatistics) {
  const auto spec = job_with_statistics("topk");
  const auto whole = train(spec, 4);
  const auto stopped = train(spec, 4, {.stop_after = 2});
  EXPECT_EQ(stopped.watchers[0].models.size(), 4U);
  const auto resumed = train(spec, 4, {.checkpoint = stopped.checkpoint()});
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << rank;
  }
}

TEST(Gossip, ACheckpointThatHasTheStatisticsOfRank0InTheModelOnlyIsTaken) {
  const auto spec = job_with_statistics("none");
  const auto file = protocol::read_safetensors(train(spec, 2, {.stop_after = 2}).checkpoint()).value();
  std::vector<protocol::StoredTensor> others;
  for (const auto& tensor : file.tensors) {
    if (!tensor.name.starts_with("rank.0.buffers.")) others.push_back(tensor);
  }
  ASSERT_LT(others.size(), file.tensors.size());
  const auto before = Segment::own(protocol::write_safetensors(file.metadata, others).value());
  auto first = Replica::make(spec, 0, 2).value();
  const auto restored = first->restore(protocol::testing::part_of(before, 0));
  ASSERT_TRUE(restored) << restored.error().message();
  std::size_t found = 0;
  for (const auto& [name, tensor] : first->model->statistics()) {
    EXPECT_TRUE(tensor.flatten().equal(floats_of(file, "model." + name))) << name;
    ++found;
  }
  EXPECT_GT(found, 2U);
}

TEST(Gossip, AllRanksStopAfterTheSameStepWhoeverWantsTo) {
  for (const std::uint32_t stopper : {0U, 3U, 6U}) {
    for (const std::string compressor : {"none", "topk"}) {
      auto spec = gossip_job(compressor, {{"graph", "ring"}});
      spec.training.epochs = 8;
      const auto outcome = train(spec, 7, {.stopper = stopper, .stop_after = 5});
      for (const auto& watcher : outcome.watchers) {
        EXPECT_EQ(watcher.models.size(), 8U);  // the diameter of a ring of seven is 3
        EXPECT_EQ(watcher.settled(), (std::vector<std::uint64_t>{8}));
      }
      for (const auto& result : outcome.results) {
        ASSERT_TRUE(result);
        EXPECT_FALSE(*result);
      }
    }
  }
}

TEST(Gossip, TheFirstOfSeveralWishesToStopCounts) {
  auto spec = gossip_job("none", {{"graph", "ring"}});
  spec.training.epochs = 8;
  auto group = collectives::in_process_group(7);
  std::vector<Watcher> watchers(7);
  run_ranks(7, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 7).value();
    watchers[rank].stop_after = rank == 0 ? 6 : rank == 3 ? 5 : rank == 5 ? 7 : 0;
    replica->join(*group[rank]).value();
    EXPECT_FALSE(replica->mode->train(*replica, watchers[rank]).value());
    replica.reset();
    group[rank]->close();
  });
  for (const auto& watcher : watchers) EXPECT_EQ(watcher.models.size(), 8U);
}

TEST(Gossip, AStoppedJobGoesOnBitForBit) {
  for (const std::string compressor : {"none", "topk", "dgc", "sidco", "randomk", "qsgd", "fp16"}) {
    const auto spec = gossip_job(compressor, {{"graph", "ring"}});
    const auto whole = train(spec, 4);
    const auto stopped = train(spec, 4, {.stop_after = 7});
    EXPECT_EQ(stopped.watchers[0].models.size(), 9U);
    const auto resumed = train(spec, 4, {.checkpoint = stopped.checkpoint()});
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(resumed.watchers[rank].models.size() + 9, whole.watchers[rank].models.size());
      EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes()))
          << compressor << ", rank " << rank;
    }
  }
}

TEST(Gossip, SumsOverOtherNeighboursAreRefused) {
  const auto resumed = [](const std::string& compressor, const nlohmann::json& params, std::uint64_t seed) {
    constexpr std::uint32_t ranks = 8;
    auto spec = gossip_job(compressor, {{"graph", "random_regular"}, {"degree", 3}});
    const auto checkpoint = train(spec, ranks, {.stop_after = 2}).checkpoint();
    spec.training.mode.params = params;
    spec.training.seed += seed;
    auto group = collectives::in_process_group(ranks);
    std::vector<Result<void>> joined(ranks);
    run_ranks(ranks, [&](std::uint32_t rank) {
      auto replica = Replica::make(spec, rank, ranks).value();
      replica->restore(protocol::testing::part_of(checkpoint, rank)).value();
      joined[rank] = replica->join(*group[rank]);
      replica.reset();
      group[rank]->close();
    });
    return joined;
  };
  const nlohmann::json as_before{{"graph", "random_regular"}, {"degree", 3}};
  const nlohmann::json ring{{"graph", "ring"}};
  for (const auto& result : resumed("topk", as_before, 0)) EXPECT_TRUE(result) << result.error().message();
  for (const auto& result : resumed("none", ring, 1)) EXPECT_TRUE(result) << result.error().message();
  for (const auto& results : {resumed("topk", ring, 0), resumed("topk", as_before, 1)}) {
    for (const auto& result : results) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, Errc::conflict);
      EXPECT_NE(result.error().message().find("set training.params.graph"), std::string::npos)
          << result.error().message();
    }
  }
}

TEST(Gossip, ALostNeighbourEndsTheTrainingOfAll) {
  constexpr std::uint32_t ranks = 6;
  for (const std::string compressor : {"none", "topk"}) {
    auto spec = gossip_job(compressor, {{"graph", "ring"}});
    spec.training.epochs = 1000;
    auto group = collectives::in_process_group(ranks);
    std::vector<Result<bool>> results(ranks, true);
    run_ranks(ranks, [&](std::uint32_t rank) {
      auto replica = Replica::make(spec, rank, ranks).value();
      ASSERT_TRUE(replica->join(*group[rank]));
      Watcher watcher;
      watcher.after_step = [&](std::uint64_t step) {
        if (rank == 2 && step == 3) group[2]->abort(Error{Errc::cancelled, "killed"}, /*leaves=*/true);
      };
      results[rank] = replica->mode->train(*replica, watcher);
      replica.reset();
    });
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_FALSE(results[rank]) << rank;
      if (rank == 2) continue;
      EXPECT_EQ(results[rank].error().code, Errc::peer_lost) << results[rank].error().message();
      EXPECT_EQ(group[rank]->lost_rank(), 2U) << rank;
    }
  }
}

TEST(Gossip, RefusesWhatDoesNotFitAndSaysWhy) {
  const auto with = [](const std::string& compressor, const std::string& memory) {
    auto spec = gossip_job("none", {});
    spec.compression.compressor = {compressor, nlohmann::json::object()};
    spec.compression.memory = {memory, {}};
    return refusal(spec);
  };
  EXPECT_EQ(with("topk", ""), "");
  EXPECT_EQ(with("topk", "none"), "");
  EXPECT_NE(with("topk", "residual").find("leave it null"), std::string::npos) << with("topk", "residual");
  EXPECT_NE(with("powersgd", "none").find("several passes"), std::string::npos) << with("powersgd", "none");
  EXPECT_NE(with("signsgd", "none").find("majority"), std::string::npos) << with("signsgd", "none");
  auto shared = gossip_job("none", {});
  shared.compression.compressor = {"terngrad", {{"scale", "shared"}}};
  EXPECT_NE(refusal(shared).find("several passes"), std::string::npos) << refusal(shared);

  auto summed = gossip_job("none", {});
  summed.compression.aggregation = "sum";
  EXPECT_NE(refusal(summed).find("weights of their graph"), std::string::npos) << refusal(summed);
  auto of_models = gossip_job("none", {});
  of_models.compression.apply_to = "models";
  EXPECT_NE(refusal(of_models).find("leave it at \"gradients\""), std::string::npos) << refusal(of_models);

  auto over_tree = gossip_job("none", {});
  over_tree.exchange.topology = "tree";
  EXPECT_NE(refusal(over_tree).find("leave it at \"ring\""), std::string::npos) << refusal(over_tree);
  EXPECT_NE(refusal(gossip_job("none", {{"graph", "random_regular"}, {"degree", 4}}), 4).find("degree 4"),
            std::string::npos);
  EXPECT_EQ(refusal(gossip_job("none", {{"graph", "random_regular"}, {"degree", 3}}), 4), "");
}

TEST(Gossip, RefusesTheStateOfAnotherMode) {
  auto spec = gossip_job("topk", {});
  const auto stopped = train(spec, 2);
  spec.training.mode = {"sync", {}};
  const auto restored = Replica::make(spec, 0, 2).value()->restore(stopped.checkpoint());
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::malformed);
}

TEST(Graph, HasADiameter) {
  const auto diameter = [](const std::string& name, std::uint32_t ranks) {
    return collectives::make_graph(ranks, {.name = name}).value().diameter();
  };
  EXPECT_EQ(diameter("ring", 1), 0U);
  EXPECT_EQ(diameter("ring", 2), 1U);
  EXPECT_EQ(diameter("ring", 7), 3U);
  EXPECT_EQ(diameter("ring", 8), 4U);
  EXPECT_EQ(diameter("torus", 16), 4U);
  EXPECT_EQ(diameter("complete", 9), 1U);
}

}  // namespace
}  // namespace weir::training
