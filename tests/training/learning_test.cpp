#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>

#include "ranks.hpp"
#include "training/datasets/catalog.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;

class Losses final : public Progress {
 public:
  bool stop_wanted() const override { return false; }
  Result<void> step_done(const Replica&, const StepRecord& record) override {
    losses.push_back(record.loss);
    return {};
  }
  std::vector<double> losses;
};

TEST(Learning, LeNetLearnsFashionMnistWithDgc) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "needs `apt-get install dataset-fashion-mnist`";
  }
  auto spec = testing::small_job("dgc", 0.001);
  spec.model = {"lenet", {}};
  spec.dataset.choice = {"fashion-mnist", {}};
  spec.training.batch_size = 32;
  spec.training.max_steps = 40;
  spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0.9}}};
  spec.exchange = {.topology = "ring", .transport = "auto", .bucket_bytes = 25 << 20};
  auto group = collectives::in_process_group(2);
  std::vector<Losses> losses(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = modes().make("sync", nullptr).value()->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    replica.reset();
    group[rank]->close();
  });
  const auto& all = losses[0].losses;
  ASSERT_EQ(all.size(), 40u);
  const double last = (all[36] + all[37] + all[38] + all[39]) / 4;
  EXPECT_LT(last, 0.6 * all.front());  // from about 2.3; guessing would stay there
}

/// The loss at the end of a training of four ranks on synthetic data, averaged over the last epoch.
double loss_after(double epochs, const std::string& compressor, const std::string& topology, std::uint64_t seed) {
  constexpr std::uint32_t ranks = 4;
  constexpr std::size_t last = 8;  // steps of an epoch
  auto spec = testing::small_job(compressor, 0.02);
  spec.training.epochs = epochs;
  spec.training.seed = seed;
  spec.exchange = {.topology = topology, .transport = "auto", .bucket_bytes = 1 << 20};
  auto group = collectives::in_process_group(ranks);
  std::vector<Losses> losses(ranks);
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = modes().make("sync", nullptr).value()->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    replica.reset();
    group[rank]->close();
  });
  double sum = 0;
  for (const auto& of_rank : losses) sum += std::accumulate(of_rank.losses.end() - last, of_rank.losses.end(), 0.0);
  return sum / (ranks * last);
}

class LearningBySparseSums : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Learning, LearningBySparseSums, ::testing::Values("topk", "dgc"));

/// Over the ring, a step applies all that any rank has chosen; over split_gather about as much as one rank chooses.
/// What is left out comes later: the same loss takes more steps, but not half as many again.
TEST_P(LearningBySparseSums, IsLittleBehindTheRing) {
  double sum_over_ring = 0;
  double sum_split = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    sum_over_ring += loss_after(4, GetParam(), "ring", seed);
    sum_split += loss_after(6, GetParam(), "split_gather", seed);
  }
  EXPECT_LT(sum_split, sum_over_ring);
}

/// The loss of the best model that knows of each token only how often it occurs.
double unigram_loss(const protocol::Choice& dataset) {
  const auto examples = datasets().make(dataset.name, dataset.params, "").value()->train().value();
  std::vector<std::uint32_t> all(examples->classes().size());
  std::iota(all.begin(), all.end(), 0u);
  const auto tokens = examples->batch(all).target.flatten();
  std::map<std::int64_t, double> counts;
  for (std::int64_t i = 0; i < tokens.numel(); ++i) ++counts[tokens.data_ptr<std::int64_t>()[i]];
  double loss = 0;
  for (const auto& [token, count] : counts) {
    const double share = count / static_cast<double>(tokens.numel());
    loss -= share * std::log(share);
  }
  return loss;
}

class LearningOfTexts : public ::testing::TestWithParam<protocol::Choice> {};
INSTANTIATE_TEST_SUITE_P(Learning, LearningOfTexts,
                         ::testing::Values(protocol::Choice{"char_lstm",
                                                            {{"embedding", 16}, {"hidden", 32}, {"layers", 1}}},
                                           protocol::Choice{"gpt", {{"layers", 1}, {"heads", 2}, {"width", 32}}}),
                         [](const auto& info) { return info.param.name; });

/// To be better, a model must have learned what follows what.
TEST_P(LearningOfTexts, GoesBelowTheLossOfAUnigramModel) {
  auto spec = testing::small_job("topk", 0.1);
  spec.model = GetParam();
  spec.dataset.choice = {"synthetic-text", {{"context", 16}, {"vocabulary", 16}, {"train_examples", 1024}}};
  spec.training.epochs = 5;
  spec.training.batch_size = 16;
  spec.training.optimizer = {"adamw", {{"lr", 0.01}, {"no_decay", true}}};
  auto group = collectives::in_process_group(2);
  std::vector<Losses> losses(2);
  run_ranks(2, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, 2).value();
    ASSERT_TRUE(replica->join(*group[rank]));
    const auto done = modes().make("sync", nullptr).value()->train(*replica, losses[rank]);
    ASSERT_TRUE(done) << done.error().message();
    replica.reset();
    group[rank]->close();
  });
  const auto& all = losses[0].losses;
  ASSERT_EQ(all.size(), 160u);
  const double unigram = unigram_loss(spec.dataset.choice);
  EXPECT_NEAR(unigram, 2.482, 5e-4);  // tests/system/test_models.py compares with this
  EXPECT_GT(all.front(), unigram) << "it begins with less";
  EXPECT_LT(std::accumulate(all.end() - 16, all.end(), 0.0) / 16, 0.85 * unigram);
}

}  // namespace
}  // namespace weir::training
