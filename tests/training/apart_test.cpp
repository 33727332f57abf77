// Ranks that step by themselves: what they exchange of their models, and how they differ.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "mode_runs.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {
namespace {

using testing::same;
using testing::small_job;
using testing::train;
using testing::Watcher;

protocol::JobSpec job_on_models(const std::string& compressor, std::uint64_t period) {
  auto spec = testing::with_batch_norm(small_job(compressor, 0.25));
  spec.compression.apply_to = "models";
  if (compressor == "topk") spec.compression.memory = {"residual", {}};
  if (period > 1) spec.training.mode = {"local_sgd", {{"period", period}}};
  return spec;
}

class OnModels : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Periods, OnModels, ::testing::Values(1, 3));

TEST_P(OnModels, ParametersAndStatisticsAreEqualAfterAnExchange) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto outcome = train(job_on_models(compressor, GetParam()), 2);
    const auto& [one, other] = std::tie(outcome.watchers[0], outcome.watchers[1]);
    ASSERT_EQ(one.records.size(), 6U);
    for (std::size_t step = 0; step < 6; ++step) {
      EXPECT_EQ(one.records[step].exchanged, (step + 1) % GetParam() == 0);
      EXPECT_EQ(one.records[step].local_steps, one.records[step].exchanged ? GetParam() : 0);
      EXPECT_EQ(same(one.models[step], other.models[step]), one.records[step].exchanged) << compressor;
      EXPECT_EQ(same(one.buffers[step], other.buffers[step]), one.records[step].exchanged) << compressor;
    }
  }
}

// What one step of each rank leads to is worked out here, without the modes.
TEST(Models, AStepIsTheMeanOfTheRanksOwnSteps) {
  constexpr std::uint32_t ranks = 3;
  const auto spec = job_on_models("none", 1);
  const auto outcome = train(spec, ranks);
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    replicas.push_back(Replica::make(spec, rank, ranks).value());
    auto& one = *replicas.back();
    one.model->set_training(true);
    const auto batch = one.examples->batch(one.sampler.examples(0));
    at::cross_entropy_loss(one.model->forward(batch.input), batch.target).backward();
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : one.model->parameters()) {
      at::Tensor parameter = tensor;
      parameter.sub_(0.05 * (parameter.grad() + 1e-4 * parameter));
    }
  }
  const auto& found = outcome.watchers[0];
  for (std::size_t p = 0; p < found.models[0].size(); ++p) {
    at::Tensor sum = at::zeros_like(found.models[0][p]);
    for (const auto& one : replicas) sum += one->model->parameters()[p].tensor.detach();
    EXPECT_TRUE(found.models[0][p].allclose(sum / 3.0, 1e-4, 1e-6)) << p;
  }
  std::size_t averaged = 0;
  for (std::size_t b = 0; b < found.buffers[0].size(); ++b) {
    const auto of_rank = [&](std::size_t rank) { return replicas[rank]->model->buffers()[b].tensor; };
    if (of_rank(0).scalar_type() != at::kFloat) {
      EXPECT_TRUE(found.buffers[0][b].equal(of_rank(0))) << "counts are not averaged";
      continue;
    }
    ++averaged;
    EXPECT_FALSE(of_rank(0).equal(of_rank(1)));
    EXPECT_TRUE(found.buffers[0][b].allclose((of_rank(0) + of_rank(1) + of_rank(2)) / 3.0, 1e-4, 1e-6)) << b;
  }
  EXPECT_GT(averaged, 0U);
}

/// The first exchange finds what the ranks have made of the same model, so that the mean of their statistics does not
/// depend on what is made of the parameters. Their sum would have negative variances, and the model no output.
TEST(Models, HaveTheMeanOfStatisticsWhateverIsMadeOfParameters) {
  for (const std::string mode : {"sync", "local_sgd", "diloco"}) {
    auto spec = job_on_models("none", 1);
    spec.training.mode = {mode, mode == "sync" ? nlohmann::json::object() : nlohmann::json{{"period", 2}}};
    spec.training.max_steps = 2;
    const auto mean = train(spec, 3).watchers[0];
    const std::size_t first = mode == "sync" ? 0 : 1;
    for (const std::string aggregation : {"sum", "min", "max", "weighted"}) {
      spec.compression.aggregation = aggregation;
      const auto found = train(spec, 3).watchers[0];
      EXPECT_EQ(same(found.models[first], mean.models[first]), aggregation == "weighted") << mode;
      for (std::size_t b = 0; b < mean.buffers[first].size(); ++b) {
        EXPECT_TRUE(found.buffers[first][b].allclose(mean.buffers[first][b], 1e-4, 1e-6)) << mode << aggregation << b;
      }
    }
  }
}

/// With efsignsgd, which takes vectors, too: signs of the mean size of all channels would make small variances
/// negative.
TEST(Models, HaveTheMeanOfStatisticsWhateverTheCompressor) {
  const auto exact = train(job_on_models("none", 1), 3).watchers[0];
  auto spec = job_on_models("none", 1);
  spec.compression.compressor = {"efsignsgd", {}};
  spec.compression.memory = {"efsignsgd", {}};
  const auto coded = train(spec, 3).watchers[0];
  EXPECT_FALSE(same(coded.models[0], exact.models[0]));
  for (std::size_t b = 0; b < exact.buffers[0].size(); ++b) {
    EXPECT_TRUE(coded.buffers[0][b].allclose(exact.buffers[0][b], 1e-4, 1e-6)) << b;
  }
}

TEST_P(OnModels, AResumedJobEndsWithTheSameBytes) {
  const auto spec = job_on_models("topk", GetParam());
  const auto whole = train(spec, 2);
  const auto half = train(spec, 2, {.stop_after = 2});
  EXPECT_EQ(half.watchers[0].records.size(), 3U) << "it stops with the exchange after the second step";
  const auto resumed = train(spec, 2, {.checkpoint = half.checkpoint()});
  for (const std::uint32_t rank : {0, 1}) {
    EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << rank;
  }
}

TEST(Models, AJobThatExchangedGradientsMayGoOn) {
  auto spec = job_on_models("none", 1);
  spec.compression.apply_to = "gradients";
  spec.training.max_steps = 3;
  const auto before = train(spec, 2);
  EXPECT_FALSE(same(before.watchers[0].buffers.back(), before.watchers[1].buffers.back()));
  spec.compression.apply_to = "models";
  spec.training.max_steps.reset();
  const auto after = train(spec, 2, {.checkpoint = before.checkpoint()});
  ASSERT_EQ(after.watchers[0].records.size(), 3U);
  EXPECT_TRUE(same(after.watchers[0].buffers.back(), after.watchers[1].buffers.back()));
  EXPECT_TRUE(same(after.watchers[0].models.back(), after.watchers[1].models.back()));
}

/// A job in mode `local`: without a group.
Watcher train_alone(const protocol::JobSpec& spec, Segment* share = nullptr, const Segment& checkpoint = {},
                    std::uint64_t stop_after = 0) {
  auto replica = Replica::make(spec, 0, 1).value();
  if (!checkpoint.empty()) replica->restore(checkpoint).value();
  Watcher watcher;
  watcher.stop_after = stop_after;
  replica->mode->train(*replica, watcher).value();
  if (share != nullptr) *share = Segment::own(replica->save().value());
  return watcher;
}

TEST(Local, IsSyncWithOneRank) {
  auto spec = small_job("none");
  spec.training.clip.norm = 0.5;
  spec.training.clip.local = true;
  const auto synchronous = train(testing::accumulating(spec, 2), 1);
  spec.training.mode.name = "local";
  spec = testing::accumulating(spec, 2);
  const auto alone = train_alone(spec);
  ASSERT_EQ(alone.records.size(), synchronous.watchers[0].records.size());
  EXPECT_TRUE(same(alone.models.back(), synchronous.watchers[0].models.back()));
  EXPECT_EQ(alone.records.back().loss, synchronous.watchers[0].records.back().loss);
  EXPECT_EQ(alone.records.back().dense_bytes, 0U);
}

TEST(Local, StopsAndGoesOnWithTheSameBytes) {
  auto spec = small_job("none");
  spec.training.mode.name = "local";
  Segment whole;
  Segment half;
  Segment resumed;
  train_alone(spec, &whole);
  EXPECT_EQ(train_alone(spec, &half, {}, 7).records.size(), 7U);
  const auto joined = Segment::own(protocol::join_checkpoint(std::span(&half, 1)).value().whole());
  train_alone(spec, &resumed, joined);
  EXPECT_TRUE(std::ranges::equal(whole.bytes(), resumed.bytes()));
}

TEST(Local, IsForOneRankThatCompressesNothing) {
  auto spec = small_job("none");
  spec.training.mode.name = "local";
  EXPECT_TRUE(Replica::make(spec, 0, 1));
  const auto two = Replica::make(spec, 0, 2);
  ASSERT_FALSE(two);
  EXPECT_NE(two.error().message().find("trains on one worker, and the job has 2"), std::string::npos);
  spec.compression.compressor = {"topk", {}};
  EXPECT_FALSE(Replica::make(spec, 0, 1));
}

/// A clock that shows a second more each time it is asked, and on which sleeping takes no time.
struct Seconds {
  std::int64_t shown = 0;
  std::vector<double> slept;

  Slowdown::Clock clock() {
    return {.now = [this] { return Slowdown::Time(std::chrono::seconds(shown++)); },
            .sleep = [this](Slowdown::Duration time) { slept.push_back(std::chrono::duration<double>(time).count()); }};
  }
};

TEST(SlowdownOf, AWorkerIsSleptAfterEachPass) {
  const auto spec = testing::accumulating(small_job("none"), 3);
  const auto replica = Replica::make(spec, 0, 2).value();
  Seconds seconds;
  Passes passes(*replica, Passes::all_steps(*replica, 3), Slowdown(10, seconds.clock()));
  const double loss = passes.run(0.1).value();
  EXPECT_EQ(seconds.slept, std::vector<double>(6, 9)) << "each forward and each backward pass takes a second";
  const auto other = Replica::make(spec, 0, 2).value();
  Seconds untouched;
  Passes at_once(*other, Passes::all_steps(*other, 3), Slowdown(1, untouched.clock()));
  EXPECT_EQ(at_once.run(0.1).value(), loss);
  EXPECT_EQ(untouched.shown, 0) << "nobody is slowed down, so nobody looks at the clock";
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A rank that sleeps takes longer than all ranks compute, on a machine of any speed.
TEST(SlowdownOf, ARankIsThatOfTheJob) {
  for (const std::string mode : {"sync", "local_sgd", "diloco", "gossip"}) {
    auto spec = small_job("none");
    spec.training.max_steps = 2;
    spec.training.mode = {mode, {}};
    const auto expected = train(spec, 2).watchers[0].models.back();
    spec.training.mode.params = {{"slowdown", {1, 200}}};
    spec.training.conditions.slowdown = {1, 200};
    const double before = processor_seconds();
    const auto outcome = train(spec, 2);
    const double computed = processor_seconds() - before;
    double slowed = 0;
    for (const auto& record : outcome.watchers[1].records) slowed += record.compute_seconds;
    EXPECT_GT(slowed, 2 * computed) << mode;
    EXPECT_TRUE(same(outcome.watchers[0].models.back(), expected)) << mode;
  }
}

}  // namespace
}  // namespace weir::training
