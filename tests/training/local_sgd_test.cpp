#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "ranks.hpp"
#include "tests/protocol/part_of.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;
using testing::small_job;

constexpr double rate = 0.05;  ///< of small_job(), as the next two
constexpr double momentum = 0.9;
constexpr double decay = 1e-4;

protocol::JobSpec local_job(const std::string& compressor, nlohmann::json params, double ratio = 0.25) {
  auto spec = small_job(compressor, ratio);
  spec.training.mode = {"local_sgd", std::move(params)};
  if (compressor == "topk") spec.compression.memory = {"residual", {}};
  if (compressor == "qsgd") spec.compression.compressor.params = {};
  return spec;
}

using Tensors = std::vector<at::Tensor>;

Tensors cloned(const Model& model) {
  Tensors tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor.detach().clone());
  return tensors;
}

bool same(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

/// The models of a rank by step, and in which steps it has exchanged.
class Watcher final : public Progress {
 public:
  bool stop_wanted() const override { return stop_; }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    models.push_back(cloned(*replica.model));
    exchanged.push_back(record.exchanged);
    rounds.push_back(record.rounds.value_or(0));
    if (record.step == stop_after) stop_ = true;
    return {};
  }

  std::vector<Tensors> models;
  std::vector<bool> exchanged;
  std::vector<std::uint64_t> rounds;  ///< before the step
  std::uint64_t stop_after = 0;

 private:
  bool stop_ = false;
};

struct Outcome {
  std::vector<Watcher> watchers;
  std::vector<Segment> shares;
  std::vector<Result<bool>> results;
  std::vector<std::uint64_t> sent_bytes;  ///< by rank
};

Outcome train(const protocol::JobSpec& spec, std::uint32_t ranks, const Segment& checkpoint = {},
              std::uint64_t stop_rank_1_after = 0) {
  auto group = collectives::in_process_group(ranks, 3, {.ranks_per_host = 2});
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Segment>(ranks), std::vector<Result<bool>>(ranks, false),
                  std::vector<std::uint64_t>(ranks)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    if (!checkpoint.empty()) replica->restore(protocol::testing::part_of(checkpoint, rank)).value();
    if (rank == 1) outcome.watchers[rank].stop_after = stop_rank_1_after;
    replica->join(*group[rank]).value();
    outcome.results[rank] = replica->mode->train(*replica, outcome.watchers[rank]);
    outcome.sent_bytes[rank] = group[rank]->traffic().sent_bytes;
    outcome.shares[rank] = Segment::own(replica->save().value());
    replica.reset();
    group[rank]->close();
  });
  return outcome;
}

std::vector<std::uint64_t> exchanges_of(const Watcher& watcher) {
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 0; i < watcher.exchanged.size(); ++i) {
    if (watcher.exchanged[i]) steps.push_back(i + 1);
  }
  return steps;
}

/// The entries of the largest magnitude, so many of all; biases and what else has one dimension as it is.
at::Tensor largest(const at::Tensor& of, double ratio) {
  if (of.dim() < 2) return of;
  const auto kept = static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(of.numel())));
  const auto chosen = std::get<1>(of.flatten().abs().topk(kept));
  at::Tensor sent = at::zeros_like(of);
  sent.flatten().index_put_({chosen}, of.flatten().index({chosen}));
  return sent;
}

/// Local SGD as the papers write it, rank after rank: the models of rank 0 by step. What a rank's model has moved since
/// the last exchange is sent to a share of `ratio`, and the rest goes with the next.
std::vector<Tensors> textbook(const protocol::JobSpec& spec, std::uint32_t ranks,
                              const std::vector<std::uint64_t>& exchanges, double ratio) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) replicas.push_back(Replica::make(spec, rank, ranks).value());
  Tensors common = cloned(*replicas[0]->model);
  Tensors zeros;
  for (const auto& tensor : common) zeros.push_back(at::zeros_like(tensor));
  std::vector<Tensors> velocities(ranks, zeros);
  std::vector<Tensors> residuals(ranks, zeros);
  std::vector<Tensors> models;
  for (std::uint64_t step = 0; step < replicas[0]->length.steps_total; ++step) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Replica& one = *replicas[rank];
      const auto batch = one.examples->batch(one.sampler.examples(step));
      at::cross_entropy_loss(one.model->forward(batch.input), batch.target).backward();
      const at::NoGradGuard no_grad;
      for (std::size_t p = 0; p < common.size(); ++p) {
        at::Tensor parameter = one.model->parameters()[p].tensor;
        velocities[rank][p] = velocities[rank][p] * momentum + parameter.grad() + decay * parameter;
        parameter.sub_(rate * velocities[rank][p]);
        parameter.mutable_grad().reset();
      }
    }
    if (std::ranges::count(exchanges, step + 1) > 0) {
      const at::NoGradGuard no_grad;
      for (std::size_t p = 0; p < common.size(); ++p) {
        at::Tensor sum = at::zeros_like(common[p]);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const at::Tensor wanted = replicas[rank]->model->parameters()[p].tensor - common[p] + residuals[rank][p];
          const at::Tensor sent = largest(wanted, ratio);
          residuals[rank][p] = wanted - sent;
          sum += sent;
        }
        common[p] = common[p] + sum / static_cast<double>(ranks);
        for (const auto& one : replicas) at::Tensor(one->model->parameters()[p].tensor).copy_(common[p]);
      }
    }
    models.push_back(cloned(*replicas[0]->model));
  }
  return models;
}

class LocalSgdWith : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(LocalSgd, LocalSgdWith, ::testing::Values("none", "topk"));

TEST_P(LocalSgdWith, IsThatOfTheTextbook) {
  constexpr std::uint32_t ranks = 3;
  const auto spec = local_job(GetParam(), {{"period", 4}, {"post_local_epoch", 0.3}});  // three steps of ten
  const auto outcome = train(spec, ranks);
  const auto& watcher = outcome.watchers[0];
  EXPECT_EQ(exchanges_of(watcher), (std::vector<std::uint64_t>{1, 2, 3, 7, 11, 15, 19, 20}));
  const auto expected = textbook(spec, ranks, exchanges_of(watcher), GetParam() == "none" ? 1 : 0.25);
  ASSERT_EQ(watcher.models.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    for (std::size_t p = 0; p < expected[step].size(); ++p) {
      EXPECT_TRUE(watcher.models[step][p].allclose(expected[step][p], 1e-4, 1e-6)) << "step " << step + 1;
    }
  }
}

TEST(LocalSgd, ModelsDifferBetweenExchangesAndAreEqualAfterThem) {
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"ring", "none"},      {"ring", "topk"},         {"ring", "qsgd"},         {"two_hop", "topk"},
      {"two_hop", "qsgd"},   {"parameter_server", ""}, {"split_gather", "topk"}, {"split_gather", "none"},
      {"multi_hop", "qsgd"}, {"multi_hop", "none"},    {"hierarchical", "topk"}, {"hierarchical", "qsgd"},
      {"auto", "topk"},      {"auto", "none"}};
  for (const auto& [topology, compressor] : ways) {
    auto spec = local_job(compressor.empty() ? "topk" : compressor, {{"period", 3}});
    spec.exchange.topology = topology;
    const auto outcome = train(spec, 4);
    const auto& first = outcome.watchers[0];
    for (const auto& other : std::span(outcome.watchers).subspan(1)) {
      ASSERT_EQ(other.models.size(), first.models.size());
      for (std::size_t step = 0; step < first.models.size(); ++step) {
        EXPECT_EQ(same(first.models[step], other.models[step]), first.exchanged[step])
            << topology << " " << compressor << " step " << step + 1;
      }
    }
  }
}

TEST(LocalSgd, AResumedJobEndsWithTheSameBytes) {
  const std::vector<std::pair<std::string, std::string>> ways = {{"ring", "none"},         {"ring", "qsgd"},
                                                                 {"two_hop", "topk"},      {"parameter_server", "topk"},
                                                                 {"split_gather", "topk"}, {"hierarchical", "topk"}};
  for (const auto& [topology, compressor] : ways) {
    auto spec = local_job(compressor, {{"period", 3}});
    spec.exchange.topology = topology;
    const auto whole = train(spec, 3);
    const auto half = train(spec, 3, {}, 10);  // which stops at the next exchange
    ASSERT_EQ(half.watchers[0].models.size(), 12U);
    const auto checkpoint = Segment::own(protocol::join_checkpoint(half.shares).value().whole());
    const auto resumed = train(spec, 3, checkpoint);
    for (const std::uint32_t rank : {0, 1, 2}) {
      EXPECT_EQ(resumed.watchers[rank].models.size() + 12, whole.watchers[rank].models.size());
      EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes()))
          << topology << " " << compressor << " rank " << rank;
    }
  }
}

// Five exchanges are done, so that the fourth, from which on powersgd compresses, does not come again: with a period of
// 8 the steps so far would have had one.
TEST(LocalSgd, ExchangesAreCountedOnWithAnotherPeriod) {
  const auto job = [](std::uint64_t period, std::uint64_t start_step) {
    auto spec = local_job("powersgd", {{"period", period}});
    spec.compression.compressor.params = {{"start_step", start_step}};
    spec.training.epochs = 10;
    spec.training.max_steps = 40;
    return spec;
  };
  const auto stopped = train(job(2, 4), 2, {}, 9);
  EXPECT_EQ(exchanges_of(stopped.watchers[0]), (std::vector<std::uint64_t>{2, 4, 6, 8, 10}));
  const auto checkpoint = Segment::own(protocol::join_checkpoint(stopped.shares).value().whole());
  const auto resumed = train(job(8, 4), 2, checkpoint);
  const auto dense = train(job(8, 1000), 2, checkpoint);
  EXPECT_EQ(exchanges_of(resumed.watchers[0]), (std::vector<std::uint64_t>{6, 14, 22, 30})) << "steps since the stop";
  EXPECT_LT(resumed.sent_bytes[0], dense.sent_bytes[0] / 2);
}

TEST(LocalSgd, RefusesTheStateOfAnotherMode) {
  auto other = local_job("none", {});
  other.training.mode = {"sync", {}};
  const auto synchronous = train(other, 2);
  const auto checkpoint = Segment::own(protocol::join_checkpoint(synchronous.shares).value().whole());
  const auto restored = Replica::make(local_job("none", {{"period", 4}}), 0, 2).value()->restore(checkpoint);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::malformed) << restored.error().message();
}

TEST(LocalSgd, RanksStopAtTheNextExchange) {
  const auto outcome = train(local_job("none", {{"period", 5}}), 2, {}, 7);
  for (const std::uint32_t rank : {0, 1}) {
    ASSERT_TRUE(outcome.results[rank]);
    EXPECT_FALSE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].models.size(), 10U);
  }
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

// Each rank sees two of the four classes only: nobody learns all of them from its own examples. With a bound between.
TEST(LocalSgd, LearnsWhatNoRankCouldLearnAlone) {
  constexpr double bound = 0.25;
  for (const std::string compressor : {"none", "topk", "qsgd"}) {
    auto spec = local_job(compressor, {{"period", 4}});
    spec.dataset.partition = "by_class";
    spec.training.epochs = 8;
    const auto together = train(spec, 2);
    const auto& models = together.watchers[0].models;
    EXPECT_LT(loss_of(spec, models.back()), bound) << compressor;
    spec.training.mode.params["period"] = 1'000'000;
    const auto alone = train(spec, 2);
    for (const auto& watcher : alone.watchers) {
      EXPECT_GT(loss_of(spec, watcher.models[watcher.models.size() - 2]), 4 * bound) << "what a rank has learned alone";
    }
  }
}

// A residual of differences is already in units of the weights: the learning rate must not scale it again.
TEST(LocalSgd, ErrorFeedbackOfTheWeightsIsErrorFeedback) {
  const auto last_model = [](const std::string& memory) {
    auto spec = local_job("topk", {{"period", 2}}, 0.05);
    spec.training.lr_schedule = {"step", {{"epochs", 0.5}, {"gamma", 0.1}}};
    spec.compression.memory = {memory, {}};
    return train(spec, 2).watchers[0].models.back();
  };
  EXPECT_TRUE(same(last_model("efsignsgd"), last_model("residual")));
}

TEST(LocalSgd, AWarmUpIsInExchangesOrInEpochs) {
  auto spec = local_job("powersgd", {{"period", 4}});
  spec.compression.compressor.params = {{"start_step", 5}};
  EXPECT_EQ(Replica::make(spec, 0, 4).value()->warmup().rounds, 5U);
  EXPECT_EQ(Replica::make(spec, 0, 4).value()->warmup().steps, 0U);
  spec = local_job("dgc", {{"period", 4}});
  spec.compression.memory = {"residual", {}};
  EXPECT_EQ(Replica::make(spec, 0, 4).value()->warmup().rounds, 0U);
  EXPECT_EQ(Replica::make(spec, 0, 4).value()->warmup().steps, 4U) << "half an epoch of eight steps";
}

TEST(LocalSgd, ARecordSaysHowManyExchangesWereBefore) {
  auto spec = local_job("none", {{"period", 4}, {"post_local_epoch", 0.125}});  // two steps of sixteen
  spec.training.max_steps = 9;
  const auto first = train(spec, 2);
  EXPECT_EQ(first.watchers[0].rounds, (std::vector<std::uint64_t>{0, 1, 2, 2, 2, 2, 3, 3, 3}));
  spec.training.max_steps = 11;
  const auto resumed = train(spec, 2, Segment::own(protocol::join_checkpoint(first.shares).value().whole()));
  EXPECT_EQ(resumed.watchers[0].rounds, (std::vector<std::uint64_t>{4, 5})) << "after step 9, too, its last";
}

TEST(LocalSgd, RefusesWhatAppliesMomentumToGradientsAndVotes) {
  const auto refusal = [](const std::string& compressor, const std::string& memory, nlohmann::json memory_params = {}) {
    auto spec = local_job("none", {{"period", 4}});
    spec.compression.compressor = {compressor, {}};
    spec.compression.memory = {memory, std::move(memory_params)};
    const auto made = Replica::make(spec, 0, 2);
    return made ? std::string("accepted") : made.error().message();
  };
  EXPECT_NE(refusal("dgc", "dgc").find("memory \"dgc\" does not fit where workers exchange differences"),
            std::string::npos)
      << refusal("dgc", "dgc");
  EXPECT_NE(refusal("signsgd", "none").find("majority"), std::string::npos) << refusal("signsgd", "none");
  EXPECT_NE(refusal("topk", "ef21", {{"momentum", 0.5}}).find("ef21"), std::string::npos);
  EXPECT_EQ(refusal("topk", "ef21"), "accepted");
  EXPECT_EQ(refusal("dgc", "residual"), "accepted");
}

}  // namespace
}  // namespace weir::training
