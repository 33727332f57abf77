#include "training/modes/esync.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "esync_job.hpp"

namespace weir::training {
namespace {

using testing::esync_job;
using testing::EsyncJob;
using testing::same;
using testing::train_scripted;
using testing::Watcher;

using Tensors = std::vector<at::Tensor>;

constexpr double momentum = 0.9;
constexpr double decay = 1e-4;

/// The entries of largest magnitude, a share of them; nothing else.
at::Tensor largest(const at::Tensor& values, double ratio, double share) {
  if (ratio == 1 || values.dim() < 2) return values;
  const auto chosen = std::ceil(ratio * static_cast<double>(values.numel()));
  const auto kept = static_cast<std::int64_t>(std::ceil(share * chosen));
  const auto flat = values.flatten();
  const auto positions = std::get<1>(flat.abs().topk(kept));
  return at::zeros_like(flat).index_put({positions}, flat.index({positions})).view_as(values);
}

struct Rule {
  double local_lr = 0.05;
  double global_lr = 1;
  bool weighted = false;
  double normalization = 0.5;
  double ratio = 1;
  std::vector<double> shares = {};  ///< by rank, of the entries that the ratio keeps
};

/// The common models after each round, worked out without the modes. `steps[round][rank]`: local steps.
std::vector<Tensors> textbook(const protocol::JobSpec& spec, const std::vector<std::vector<std::uint64_t>>& steps,
                              const Rule& rule) {
  const auto ranks = static_cast<std::uint32_t>(steps.front().size());
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) replicas.push_back(Replica::make(spec, rank, ranks, 1).value());
  Tensors common = testing::cloned(replicas[0]->model->parameters());
  Tensors zeros;
  for (const auto& tensor : common) zeros.push_back(at::zeros_like(tensor));
  std::vector<Tensors> velocities(ranks, zeros);
  std::vector<Tensors> residuals(ranks, zeros);
  std::vector<std::uint64_t> made(ranks);
  std::uint64_t made_by_all = 0;
  std::vector<Tensors> models;
  for (const auto& round : steps) {
    const double rate = rule.local_lr * replicas[0]->schedule->factor(made_by_all / ranks);
    double all = 0;
    double weights = 0;  // of steps
    const auto weight_of = [&](std::uint32_t rank) { return std::pow(round[rank], rule.normalization); };
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Replica& one = *replicas[rank];
      for (std::uint64_t i = 0; i < round[rank]; ++i) {
        const auto batch = one.examples->batch(one.sampler.examples(made[rank]++));
        at::cross_entropy_loss(one.model->forward(batch.input), batch.target).backward();
        const at::NoGradGuard no_grad;
        for (std::size_t p = 0; p < common.size(); ++p) {
          at::Tensor parameter = one.model->parameters()[p].tensor;
          velocities[rank][p] = velocities[rank][p] * momentum + parameter.grad() + decay * parameter;
          parameter.sub_(rate * velocities[rank][p]);
          parameter.mutable_grad().reset();
        }
      }
      made_by_all += round[rank];
      all += static_cast<double>(round[rank]);
      weights += weight_of(rank);
    }
    const at::NoGradGuard no_grad;
    for (std::size_t p = 0; p < common.size(); ++p) {
      at::Tensor sum = at::zeros_like(common[p]);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const double weight = rule.weighted ? static_cast<double>(round[rank]) / all : 1.0 / ranks;
        const at::Tensor difference = (replicas[rank]->model->parameters()[p].tensor - common[p]) / weight_of(rank);
        const at::Tensor scaled = difference * (weight * ranks * rule.global_lr * weights / ranks);
        const at::Tensor wanted = scaled + residuals[rank][p];
        const at::Tensor sent = largest(wanted, rule.ratio, rule.shares.empty() ? 1 : rule.shares[rank]);
        residuals[rank][p] = wanted - sent;
        sum += sent / static_cast<double>(ranks);
      }
      common[p] = common[p] + sum;
      for (const auto& one : replicas) at::Tensor(one->model->parameters()[p].tensor).copy_(common[p]);
    }
    models.push_back(testing::cloned(replicas[0]->model->parameters()));
  }
  return models;
}

std::vector<std::vector<std::uint64_t>> steps_in(const std::vector<Watcher>& watchers) {
  std::vector<std::vector<std::uint64_t>> steps(watchers[0].records.size());
  for (std::size_t round = 0; round < steps.size(); ++round) {
    for (const auto& watcher : watchers) steps[round].push_back(watcher.records.at(round).local_steps);
  }
  return steps;
}

void expect_textbook(const protocol::JobSpec& spec, const std::vector<Watcher>& watchers, const Rule& rule) {
  const auto expected = textbook(spec, steps_in(watchers), rule);
  for (std::size_t round = 0; round < expected.size(); ++round) {
    for (const auto& watcher : watchers) {
      ASSERT_TRUE(same(watcher.models[round], watchers[0].models[round])) << "all have the same after round " << round;
    }
    for (std::size_t p = 0; p < expected[round].size(); ++p) {
      ASSERT_TRUE(watchers[0].models[round][p].allclose(expected[round][p], 1e-4, 1e-5))
          << "round " << round << ", tensor " << p << ": "
          << (watchers[0].models[round][p] - expected[round][p]).abs().max().item<float>();
    }
  }
}

/// That the job's steps are what all workers have made, as examples, and where they are counted.
void expect_honest_steps(const std::vector<Watcher>& watchers, std::uint64_t steps_total) {
  const std::uint64_t ranks = watchers.size();
  std::uint64_t made = 0;
  std::uint64_t steps = 0;
  const auto rounds = steps_in(watchers);
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (const auto of_rank : rounds[round]) made += of_rank;
    for (const auto& watcher : watchers) {
      const auto& record = watcher.records[round];
      EXPECT_EQ(record.step, made / ranks);
      EXPECT_EQ(record.steps, made / ranks - steps);
      EXPECT_EQ(record.samples, 16 * record.local_steps);
      EXPECT_TRUE(record.exchanged && record.settled);
      EXPECT_EQ(record.rounds, round);
    }
    steps = made / ranks;
  }
  EXPECT_EQ(steps, steps_total);
  EXPECT_GE(made, steps_total * ranks);
  EXPECT_LT(made, steps_total * ranks + ranks) << "not more than a step of the job beyond the end";
}

TEST(ESync, IsThatOfTheTextbook) {
  const std::vector<std::uint64_t> wished{1, 5, 3};
  auto plain = esync_job("none");
  plain.training.lr_schedule = {"step", {{"epochs", 0.5}, {"gamma", 0.5}}};
  const auto outcome = train_scripted(plain, wished);
  EXPECT_EQ(steps_in(outcome.watchers).front(), wished);
  expect_honest_steps(outcome.watchers, 20);
  expect_textbook(plain, outcome.watchers, {});

  auto rates = esync_job("none", {{"local_lr", 0.02}, {"global_lr", 0.5}});
  expect_textbook(rates, train_scripted(rates, wished).watchers, {.local_lr = 0.02, .global_lr = 0.5});

  for (const double normalization : {0.0, 1.0}) {
    const auto spec = esync_job("none", {{"normalization", normalization}});
    const auto other = train_scripted(spec, wished);
    expect_textbook(spec, other.watchers, {.normalization = normalization});
    EXPECT_FALSE(other.watchers[0].models[0][0].allclose(outcome.watchers[0].models[0][0], 1e-4, 1e-5));
  }

  auto weighted = esync_job("none");
  weighted.compression.aggregation = "weighted";
  const auto by_samples = train_scripted(weighted, wished);
  expect_textbook(weighted, by_samples.watchers, {.weighted = true});
  EXPECT_FALSE(by_samples.watchers[0].models[0][0].allclose(outcome.watchers[0].models[0][0], 1e-4, 1e-5))
      << "unequal steps are weighted";

  const auto sparse = esync_job("topk");
  expect_textbook(sparse, train_scripted(sparse, wished).watchers, {.ratio = 0.25});
}

TEST(ESync, WorkersSendTheSharesThatTheyAreTold) {
  const std::vector<double> shares{1, 0.25};
  auto spec = esync_job("topk", {{"adapt_compression", true}}, 0.5);
  std::vector<std::uint64_t> sent(2);
  const auto adapted = train_scripted(spec, {2, 3}, {}, shares, &sent);
  expect_textbook(spec, adapted.watchers, {.ratio = 0.5, .shares = shares});  // also what memories keep
  EXPECT_EQ(adapted.watchers[0].records.back().share, 1);
  EXPECT_EQ(adapted.watchers[1].records.back().share, 0.25);
  EXPECT_LT(sent[1], sent[0] / 2);

  spec.training.mode.params["adapt_compression"] = false;
  const auto plain = train_scripted(spec, {2, 3}, {}, shares, &sent);
  expect_textbook(spec, plain.watchers, {.ratio = 0.5});
  EXPECT_FALSE(plain.watchers[1].records.back().share) << "nobody listens";
  EXPECT_GT(sent[1], sent[0] / 2);
}

TEST(ESync, SharesFitEveryTopologyAndCompressorThatTakesThem) {
  std::size_t fitting = 0;
  for (const std::string compressor : {"topk", "threshold", "dgc", "sidco", "qsgd", "randomk", "blockk", "none"}) {
    auto spec = esync_job("none", {{"adapt_compression", true}});
    spec.compression.compressor = {compressor, {}};
    if (compressor == "dgc") spec.compression.memory = {"residual", {}};
    const auto reason = testing::refusal(spec);
    if (!reason.empty()) {
      EXPECT_NE(reason.find("adapt_compression does not fit compressor"), std::string::npos) << reason;
      continue;
    }
    ++fitting;
    for (const std::string topology : {"ring", "two_hop", "parameter_server", "split_gather", "hierarchical", "auto"}) {
      spec.exchange.topology = topology;
      if (!testing::refusal(spec).empty()) continue;  // owners cannot have the state that sidco keeps
      const auto outcome = train_scripted(spec, {1, 2, 3}, {}, {0.25, 1, 0.0625});
      for (const std::uint32_t rank : {0, 1, 2}) {
        ASSERT_TRUE(outcome.results[rank])
            << compressor << " " << topology << ": " << outcome.results[rank].error().message();
        EXPECT_TRUE(same(outcome.watchers[rank].models.back(), outcome.watchers[0].models.back()))
            << compressor << " " << topology;
      }
    }
  }
  EXPECT_EQ(fitting, 4U);
}

TEST(ESync, WithEqualStepsIsLocalSgd) {
  auto spec = esync_job("topk");
  const auto found = train_scripted(spec, {4, 4});
  spec.training.mode = {"local_sgd", {{"period", 4}}};
  const auto expected = testing::train(spec, 2);
  ASSERT_EQ(found.watchers[0].records.size(), 8U);
  ASSERT_EQ(expected.watchers[0].records.size(), 32U);
  for (std::size_t round = 0; round < 8; ++round) {
    EXPECT_TRUE(same(found.watchers[0].models[round], expected.watchers[0].models[4 * round + 3])) << round;
  }
}

TEST(ESync, AllHaveTheSameModelOverEveryTopology) {
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"ring", "qsgd"},         {"tree", "topk"},         {"two_hop", "topk"}, {"parameter_server", "topk"},
      {"split_gather", "topk"}, {"hierarchical", "topk"}, {"auto", "topk"},    {"auto", "none"},
      {"butterfly", "none"},    {"multi_hop", "qsgd"}};
  for (const auto& [topology, compressor] : ways) {
    auto spec = esync_job(compressor);
    spec.exchange.topology = topology;
    EsyncJob job(spec, 4);
    job.run();
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      ASSERT_TRUE(job.results[rank]) << topology << ": " << job.results[rank].error().message();
      EXPECT_TRUE(*job.results[rank]);
    }
    for (const auto& watcher : job.watchers) {
      ASSERT_EQ(watcher.models.size(), job.watchers[0].models.size());
      for (std::size_t round = 0; round < watcher.models.size(); ++round) {
        ASSERT_TRUE(same(watcher.models[round], job.watchers[0].models[round])) << topology << " " << round;
      }
    }
    expect_honest_steps(job.watchers, 16);
  }
}

TEST(ESync, FollowsTheStateServer) {
  const auto spec = esync_job("none");
  EsyncJob job(spec, 3);
  job.run();
  for (const auto& result : job.results) {
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(*result);
  }
  expect_honest_steps(job.watchers, 20);
  expect_textbook(spec, job.watchers, {});
  EXPECT_EQ(job.job_steps.front(), 0U);
  EXPECT_EQ(job.job_steps.back(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(job.job_steps));
}

TEST(ESync, StatisticsAreAveragedWhateverTheGlobalRate) {
  auto spec = testing::with_batch_norm(esync_job("none", {{"global_lr", 0.25}}));
  spec.compression.apply_to = "models";
  const auto outcome = train_scripted(spec, {1, 3});
  for (std::size_t round = 0; round < outcome.watchers[0].buffers.size(); ++round) {
    for (std::size_t b = 0; b < outcome.watchers[0].buffers[round].size(); ++b) {
      const auto& buffer = outcome.watchers[0].buffers[round][b];
      if (buffer.scalar_type() != at::kFloat) continue;
      EXPECT_TRUE(buffer.equal(outcome.watchers[1].buffers[round][b])) << round;
    }
  }
  // In the first step the mean of the batches' statistics moves all of the way, not a quarter of it.
  spec.training.mode.params["global_lr"] = 1;
  const auto whole = train_scripted(spec, {1, 3});
  std::size_t compared = 0;
  for (std::size_t b = 0; b < whole.watchers[0].buffers[0].size(); ++b) {
    const auto& buffer = whole.watchers[0].buffers[0][b];
    if (buffer.scalar_type() != at::kFloat) continue;
    EXPECT_TRUE(buffer.equal(outcome.watchers[0].buffers[0][b])) << b;
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

TEST(ESync, WorkersStopTogether) {
  const auto outcome = train_scripted(esync_job("none"), {1, 5, 3}, {.stopper = 1, .stop_after = 6});
  for (const std::uint32_t rank : {0, 1, 2}) {
    ASSERT_TRUE(outcome.results[rank]);
    EXPECT_FALSE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].records.back().step, 9U) << "two rounds of nine, and that in which it is told";
  }
  EsyncJob job(testing::endless_job(), 2);
  job.watchers[0].stop_after = 1;  // of the first round, before anything is known of the workers' speeds
  job.run();
  for (const auto& result : job.results) {
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_FALSE(*result) << "also the state server's";
  }
}

// The clocks of a resumed job show other times; one whose workers are granted the same steps ends with the same bytes.
TEST(ESync, AResumedJobLosesNoUpdate) {
  for (const std::string compressor : {"none", "topk", "qsgd"}) {
    for (const std::string aggregation : {"mean", "weighted"}) {
      auto spec = esync_job(compressor);
      spec.compression.aggregation = aggregation;
      spec.dataset.partition = "by_class";
      const auto whole = train_scripted(spec, {1, 4, 2});
      const auto half = train_scripted(spec, {1, 4, 2}, {.stopper = 2, .stop_after = 7});
      EXPECT_LT(half.watchers[0].records.size(), whole.watchers[0].records.size());
      const auto resumed = train_scripted(spec, {1, 4, 2}, {.checkpoint = half.checkpoint()});
      EXPECT_EQ(resumed.watchers[0].records.size() + half.watchers[0].records.size(), whole.watchers[0].records.size());
      for (const std::uint32_t rank : {0, 1, 2}) {
        EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes()))
            << compressor << " " << aggregation << " rank " << rank;
      }
    }
  }
}

TEST(ESync, RefusesCheckpointsThatAreNotItsOwn) {
  auto spec = esync_job("none");
  spec.training.mode = {"sync", {}};
  spec.training.max_steps = 2;
  const auto other = testing::train(spec, 2).checkpoint();
  const auto replica = Replica::make(esync_job("none"), 0, 2).value();
  const auto restored = replica->restore(other);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::malformed) << restored.error().message();

  const auto own = train_scripted(esync_job("none"), {1, 2}, {.stop_after = 3}).checkpoint();
  const auto without = Replica::make(esync_job("none"), 0, 2, 1).value()->restore(own);
  ASSERT_FALSE(without) << "it was made without a state server";
  EXPECT_EQ(without.error().code, Errc::conflict);
}

/// The mean loss of a model over all training examples, of all ranks.
double loss_of(const protocol::JobSpec& spec, const Tensors& parameters) {
  const auto replica = Replica::make(spec, 0, 1).value();
  const at::NoGradGuard no_grad;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor(replica->model->parameters()[p].tensor).copy_(parameters[p]);
  }
  std::vector<std::uint32_t> all(replica->examples->classes().size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto batch = replica->examples->batch(all);
  return at::cross_entropy_loss(replica->model->forward(batch.input), batch.target).item<double>();
}

// Each rank sees two of the four classes only, and one makes four times as many steps. With a bound between what they
// learn together and what they learn where the exchange adds nothing.
TEST(ESync, LearnsWhatNoRankCouldLearnAlone) {
  constexpr double bound = 0.25;
  for (const std::string compressor : {"none", "topk", "qsgd"}) {
    auto spec = esync_job(compressor);
    spec.dataset.partition = "by_class";
    spec.training.epochs = 8;
    EXPECT_LT(loss_of(spec, train_scripted(spec, {1, 4}).watchers[0].models.back()), bound) << compressor;
    spec.training.mode.params["global_lr"] = 1e-6;
    EXPECT_GT(loss_of(spec, train_scripted(spec, {1, 4}).watchers[0].models.back()), 4 * bound) << compressor;
  }
}

}  // namespace
}  // namespace weir::training
