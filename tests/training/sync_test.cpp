#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "base/errc.hpp"
#include "folder.hpp"
#include "protocol/checkpoint.hpp"
#include "protocol/safetensors.hpp"
#include "ranks.hpp"
#include "tests/protocol/part_of.hpp"
#include "training/modes/mode.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

using testing::accumulating;
using testing::Group;
using testing::run_ranks;
using testing::small_job;
using testing::tcp_group;

/// Hash of all parameters, by step.
using Hashes = std::vector<std::uint64_t>;

class Watcher final : public Progress {
 public:
  bool stop_wanted() const override { return stop_; }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    std::uint64_t hash = 0;
    for (const auto& [name, tensor] : replica.model->parameters()) {
      hash = XXH3_64bits_withSeed(tensor.data_ptr(), tensor.nbytes(), hash);
    }
    hashes.push_back(hash);
    losses.push_back(record.loss);
    samples.push_back(record.samples);
    dense_bytes.push_back(record.dense_bytes);
    epochs.push_back(replica.epoch());
    EXPECT_EQ(record.step, replica.step);
    EXPECT_EQ(record.step, first + hashes.size());
    if (record.step == stop_after) stop_ = true;
    return {};
  }

  Hashes hashes;
  std::vector<double> losses;
  std::vector<std::uint64_t> samples;
  std::vector<std::uint64_t> dense_bytes;
  std::vector<double> epochs;
  std::uint64_t first = 0;
  std::uint64_t stop_after = 0;  ///< 0: never
  void stop() { stop_ = true; }

 private:
  std::atomic<bool> stop_ = false;  ///< also set by the thread that prepares batches
};

/// Examples that do something whenever a batch is taken from them.
class WatchedExamples final : public Examples {
 public:
  WatchedExamples(std::unique_ptr<Examples> examples, std::function<void(std::uint64_t batch)> taken)
      : examples_(std::move(examples)), taken_(std::move(taken)) {}
  std::span<const std::uint16_t> classes() const override { return examples_->classes(); }
  std::uint64_t hash() const override { return examples_->hash(); }

 private:
  Batch make(std::span<const std::uint32_t> positions, const Pass* /*pass*/, const Batch& /*memory*/) const override {
    taken_(++batches_);
    return examples_->batch(positions);
  }

  std::unique_ptr<Examples> examples_;
  std::function<void(std::uint64_t)> taken_;
  mutable std::uint64_t batches_ = 0;
};

/// What a job came to, by rank.
struct Outcome {
  std::vector<Watcher> watchers;
  std::vector<Result<bool>> results;
  std::vector<Segment> shares;
};

Outcome train(const protocol::JobSpec& spec, Group group, const Segment& checkpoint = {},
              std::uint64_t stop_rank_1_after = 0, std::uint64_t stop_rank_1_in_batch = 0) {
  const auto ranks = static_cast<std::uint32_t>(group.size());
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Result<bool>>(ranks, false), std::vector<Segment>(ranks)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    if (!checkpoint.empty()) {
      ASSERT_TRUE(replica->restore(protocol::testing::part_of(checkpoint, rank)));
    }
    auto& watcher = outcome.watchers[rank];
    watcher.first = replica->step;
    if (rank == 1) watcher.stop_after = stop_rank_1_after;
    const auto joined = replica->join(*group[rank]);
    ASSERT_TRUE(joined) << joined.error().message();
    if (rank == 1 && stop_rank_1_in_batch > 0) {
      replica->examples = std::make_unique<WatchedExamples>(std::move(replica->examples), [&](std::uint64_t batch) {
        if (batch == stop_rank_1_in_batch) watcher.stop();
      });
    }
    outcome.results[rank] = replica->mode->train(*replica, watcher);
    outcome.shares[rank] = Segment::own(replica->save().value());
    replica.reset();
    group[rank]->close();
  });
  return outcome;
}

class EveryCompressor : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Sync, EveryCompressor, ::testing::Values("none", "topk", "dgc"));

TEST_P(EveryCompressor, ReplicasAreBitIdenticalAfterEveryStepAndLearn) {
  const auto outcome = train(small_job(GetParam()), collectives::in_process_group(4));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.results[rank]) << outcome.results[rank].error().message();
    EXPECT_TRUE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].hashes.size(), 16u);
    EXPECT_EQ(outcome.watchers[rank].hashes, outcome.watchers[0].hashes) << "rank " << rank;
  }
  EXPECT_LT(outcome.watchers[0].losses.back(), 0.7 * outcome.watchers[0].losses.front());
}

TEST_P(EveryCompressor, SocketsGiveTheSameBitsAsMemory) {
  const auto over_tcp = train(small_job(GetParam()), tcp_group(4));
  const auto in_process = train(small_job(GetParam()), collectives::in_process_group(4));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(over_tcp.watchers[rank].hashes, in_process.watchers[rank].hashes) << "rank " << rank;
  }
}

/// Trains once as a whole, and once from the checkpoint of step `interrupted`.
void expect_the_same_bytes_if_resumed(protocol::JobSpec spec, std::uint64_t interrupted, std::uint32_t ranks = 2) {
  const auto whole = train(spec, collectives::in_process_group(ranks));
  spec.training.max_steps = interrupted;
  const auto half = train(spec, collectives::in_process_group(ranks));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(half.shares).value().whole());
  spec.training.max_steps.reset();
  const auto resumed = train(spec, collectives::in_process_group(ranks), checkpoint);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << "rank " << rank;
    const auto& all = whole.watchers[rank].hashes;
    ASSERT_GT(all.size(), interrupted);
    EXPECT_EQ(resumed.watchers[rank].hashes, Hashes(all.begin() + static_cast<std::ptrdiff_t>(interrupted), all.end()));
  }
}

TEST_P(EveryCompressor, AResumedJobEndsWithTheSameBytes) {
  expect_the_same_bytes_if_resumed(small_job(GetParam()), 13);  // within an epoch
}

TEST_P(EveryCompressor, AResumedJobOverRegionsEndsWithTheSameBytes) {
  auto spec = small_job(GetParam());
  spec.exchange.topology = "split_gather";
  expect_the_same_bytes_if_resumed(spec, 7, 3);
}

TEST(Sync, AResumedJobGoesOnWithTheSameAugmentationMomentsAndClipping) {
  const testing::Folder folder;
  torch::manual_seed(1);
  TensorFile file;
  file.add("train_", {{"inputs", torch::randn({512, 8, 8})}, {"classes", torch::randint(0, 4, {512}, at::kLong)}});
  const auto bytes = file.write({}).value();
  folder.write("data", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  auto spec = small_job("topk");
  spec.dataset.choice = {"arrays", {{"height", 8}, {"width", 8}, {"classes", 4}, {"crop_padding", 2}, {"flip", true}}};
  spec.dataset.path = folder / "data";
  spec.dataset.partition = "dirichlet";
  spec.dataset.dirichlet_alpha = 5;
  spec.training.lr_schedule = {"constant", {{"warmup_epochs", 1}, {"scale_with_workers", true}}};
  for (const char* optimizer : {"adam", "adamw", "lamb"}) {
    spec.training.optimizer = {optimizer, {{"lr", 0.01}, {"weight_decay", 0.01}, {"no_decay", true}}};
    spec.training.clip = {.norm = 0.5, .value = {}, .local = optimizer == std::string("lamb")};
    expect_the_same_bytes_if_resumed(spec, 13);
  }
}

/// Norms of all means of each step.
class Norms final : public Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const Replica& replica, const StepRecord&) override {
    double squares = 0;
    for (const auto& mean : replica.exchange->means()) {
      squares += mean.tensor.square().sum().item<double>();
      largest = std::max(largest, mean.tensor.abs().max().item<double>());
    }
    norms.push_back(std::sqrt(squares));
    return {};
  }
  std::vector<double> norms;
  double largest = 0;
};

std::vector<Norms> norms_of(const protocol::JobSpec& spec) {
  auto group = collectives::in_process_group(2);
  std::vector<Norms> norms(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    ASSERT_TRUE(replica->mode->train(*replica, norms[rank]));
    replica.reset();
    group[rank]->close();
  });
  return norms;
}

TEST(Clip, LimitsTheMeanOrEachRanksOwnGradient) {
  auto spec = small_job("none");
  const auto free = norms_of(spec)[0];
  EXPECT_GT(free.norms.front(), 0.2);
  spec.training.clip = {.norm = 0.1};
  for (const auto& limited : norms_of(spec)) {
    for (const double norm : limited.norms) EXPECT_LE(norm, 0.1 * (1 + 1e-5));
    EXPECT_NEAR(limited.norms.front(), 0.1, 1e-5);
  }
  // The mean of two gradients of that norm is shorter than they are.
  spec.training.clip.local = true;
  const auto own = norms_of(spec)[0];
  for (const double norm : own.norms) EXPECT_LE(norm, 0.1 * (1 + 1e-5));
  EXPECT_LT(own.norms.front(), 0.1 * (1 - 1e-4));
  EXPECT_GT(own.norms.front(), 0.05);
  spec.training.clip = {.value = 0.001};
  EXPECT_NEAR(norms_of(spec)[0].largest, 0.001, 1e-8);
}

TEST(Sync, NoDecaySparesWhatTheModelDeclares) {
  const auto after_a_step = [](double weight_decay) {
    auto spec = small_job("none");
    spec.training.max_steps = 1;
    spec.training.optimizer = {"sgd", {{"lr", 0.1}, {"weight_decay", weight_decay}, {"no_decay", true}}};
    return train(spec, collectives::in_process_group(1)).shares[0];
  };
  const auto decayed = protocol::read_safetensors(after_a_step(0.5)).value();
  const auto undecayed = protocol::read_safetensors(after_a_step(0)).value();
  int spared = 0;
  for (const auto& tensor : decayed.tensors) {
    if (!tensor.name.starts_with("model.")) continue;
    const bool equal = std::ranges::equal(tensor.bytes, undecayed.find(tensor.name)->bytes);
    EXPECT_EQ(equal, tensor.name.ends_with("bias")) << tensor.name;
    spared += equal ? 1 : 0;
  }
  EXPECT_EQ(spared, 2);
}

TEST(Sync, AnOptimizerThatKeepsItsMomentsDoesNotTrainWithTheMomentumOfAMemory) {
  auto spec = small_job("dgc");
  spec.training.optimizer = {"adam", {{"lr", 0.01}}};
  const auto made = Replica::make(spec, 0, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::invalid_argument);
}

protocol::JobSpec residual_job() {
  auto spec = small_job("dgc");
  spec.model = {"resnet20", {{"depth", 8}, {"width", 4}}};
  spec.training.epochs = 1;
  return spec;
}

TEST(Sync, ParametersOfAModelWithRunningStatisticsStayEqualAndTheStatisticsAreEachRanksOwn) {
  const auto outcome = train(residual_job(), collectives::in_process_group(2));
  EXPECT_EQ(outcome.watchers[1].hashes, outcome.watchers[0].hashes);
  const auto first = protocol::read_safetensors(outcome.shares[0]).value();
  const auto second = protocol::read_safetensors(outcome.shares[1]).value();
  const auto* evaluated = first.find("model.norm.running_mean");
  const auto* other = second.find("rank.1.buffers.norm.running_mean");
  ASSERT_TRUE(evaluated != nullptr && other != nullptr);
  EXPECT_FALSE(std::ranges::equal(evaluated->bytes, other->bytes));
}

TEST(Sync, AResumedJobGoesOnWithEachRanksRunningStatistics) { expect_the_same_bytes_if_resumed(residual_job(), 7); }

TEST(Sync, AllRanksStopAtTheStepTheyAgreeOn) {
  const auto outcome = train(small_job("dgc"), collectives::in_process_group(4), {}, 5);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.results[rank]);
    EXPECT_FALSE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].hashes.size(), 6u);
  }
}

TEST(Accumulate, TwoBatchesAStepAreOneOfTwiceTheSize) {
  for (const auto* memory : {"none", "dgc"}) {
    auto spec = small_job(memory);
    if (spec.compression.compressor.name == "dgc") spec.compression.compressor.params["ratio"] = 1.0;
    const auto large = train(spec, collectives::in_process_group(2));
    spec.training.batch_size = 8;
    const auto two = train(accumulating(spec, 2), collectives::in_process_group(2));
    ASSERT_TRUE(two.results[0]) << two.results[0].error().message();
    ASSERT_EQ(two.watchers[0].hashes.size(), large.watchers[0].hashes.size());
    EXPECT_EQ(two.watchers[1].hashes, two.watchers[0].hashes);
    for (std::size_t step = 0; step < large.watchers[0].losses.size(); ++step) {
      EXPECT_NEAR(two.watchers[0].losses[step], large.watchers[0].losses[step], 1e-5) << memory << " " << step;
    }
    const auto expected = protocol::read_safetensors(large.shares[0]).value();
    const auto got = protocol::read_safetensors(two.shares[0]).value();
    EXPECT_FALSE(expected.tensors.empty());
    for (const auto& tensor : expected.tensors) {
      if (!tensor.name.starts_with("model.")) continue;
      const auto* other = got.find(tensor.name);
      ASSERT_NE(other, nullptr);
      const auto floats = [](BytesView bytes) {
        std::vector<float> values(bytes.size() / sizeof(float));
        std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
        return values;
      };
      EXPECT_THAT(floats(other->bytes), ::testing::Pointwise(::testing::FloatNear(1e-5F), floats(tensor.bytes)))
          << memory << " " << tensor.name;
    }
  }
}

TEST(Accumulate, AStepIsTheUnitOfEverything) {
  auto spec = small_job("dgc");
  const auto outcome = train(accumulating(spec, 3), collectives::in_process_group(4));
  const auto& watcher = outcome.watchers[0];
  // 128 examples of each rank, 48 in a step, twice.
  EXPECT_EQ(watcher.hashes.size(), 4u);
  EXPECT_EQ(watcher.epochs, (std::vector<double>{0.5, 1, 1.5, 2}));
  EXPECT_THAT(watcher.samples, ::testing::Each(48u));
  const std::uint64_t parameters = 64 * 16 + 16 + 16 * 4 + 4;
  EXPECT_THAT(watcher.dense_bytes, ::testing::Each(2 * 3 * parameters * sizeof(float) / 4));
  spec.training.max_steps = 3;
  EXPECT_EQ(train(accumulating(spec, 3), collectives::in_process_group(4)).watchers[0].hashes,
            Hashes(watcher.hashes.begin(), watcher.hashes.begin() + 3));
}

TEST_P(EveryCompressor, AResumedJobThatAccumulatesEndsWithTheSameBytes) {
  auto spec = accumulating(small_job(GetParam()), 3);
  spec.training.batch_size = 8;
  for (const std::string topology : {"ring", "split_gather"}) {
    spec.exchange.topology = topology;
    expect_the_same_bytes_if_resumed(spec, 7);  // within an epoch of ten
  }
}

TEST(Accumulate, AStopInTheMiddleOfAStepEndsTheTrainingWithThatStepWhole) {
  const auto spec = accumulating(small_job("dgc"), 4);  // two steps in an epoch
  const auto whole = train(spec, collectives::in_process_group(4));
  const auto stopped = train(spec, collectives::in_process_group(4), {}, 0, 2 * 4 + 2);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(stopped.results[rank]);
    EXPECT_FALSE(*stopped.results[rank]);
    EXPECT_EQ(stopped.watchers[rank].hashes,
              Hashes(whole.watchers[rank].hashes.begin(), whole.watchers[rank].hashes.begin() + 3));
  }
}

TEST(Accumulate, ALossThatIsNoNumberInAnEarlyBatchEndsTheTrainingWithACause) {
  auto spec = accumulating(small_job("none"), 4);
  spec.training.optimizer.params["lr"] = 1e30;
  const auto outcome = train(spec, collectives::in_process_group(1));
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_THAT(outcome.results[0].error().context, ::testing::HasSubstr("the training diverged"));
}

TEST(Sync, OneRankTrainsAlone) {
  const auto outcome = train(small_job("dgc"), collectives::in_process_group(1));
  ASSERT_TRUE(outcome.results[0]) << outcome.results[0].error().message();
  EXPECT_TRUE(*outcome.results[0]);
}

TEST(Sync, ALossThatIsNoNumberEndsTheTrainingWithACause) {
  auto spec = small_job("none");
  spec.training.optimizer.params["lr"] = 1e30;
  const auto outcome = train(spec, collectives::in_process_group(2));
  for (const auto& result : outcome.results) ASSERT_FALSE(result);
  const auto diverged = std::ranges::any_of(outcome.results, [](const Result<bool>& result) {
    return result.error().context.find("the training diverged") != std::string::npos;
  });
  EXPECT_TRUE(diverged) << outcome.results[0].error().message();
}

TEST(Sync, APeerThatLeavesEndsTheStepAtOnce) {
  auto group = collectives::in_process_group(2);
  const auto spec = small_job("topk");
  Result<bool> result = true;
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    Watcher watcher;
    if (rank == 0) {
      result = replica->mode->train(*replica, watcher);
    } else {
      replica.reset();
      group[rank].reset();
    }
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::peer_lost);
  EXPECT_EQ(group[0]->lost_rank(), 1u);
}

TEST(Sync, RanksThatStartDifferentlyAreToldSo) {
  auto group = collectives::in_process_group(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto spec = small_job("none");
    spec.training.seed = rank;
    auto replica = Replica::make(spec, rank, 2).value();
    const auto joined = replica->join(*group[rank]);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, Errc::conflict);
  });
}

TEST(Replica, RefusesCheckpointsOfOtherJobs) {
  const auto spec = small_job("dgc");
  const auto outcome = train(spec, collectives::in_process_group(2));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(outcome.shares).value().whole());
  const auto refusal = [&](const protocol::JobSpec& other, std::uint32_t world, const Segment& file) {
    return Replica::make(other, 0, world).value()->restore(file).error().code;
  };
  EXPECT_EQ(refusal(spec, 3, checkpoint), Errc::conflict);
  auto larger = spec;
  larger.model.params["hidden"] = 17;
  EXPECT_EQ(refusal(larger, 2, checkpoint), Errc::conflict);
  EXPECT_EQ(refusal(spec, 2, Segment::own(Bytes(100))), Errc::malformed);
  EXPECT_EQ(refusal(spec, 2, outcome.shares[0]), Errc::conflict);
}

}  // namespace
}  // namespace weir::training
