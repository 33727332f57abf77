#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "ranks.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {
namespace {

using testing::run_ranks;
using testing::small_job;

constexpr double rate = 0.05;  ///< of small_job(), as the next two
constexpr double momentum = 0.9;
constexpr double decay = 1e-4;

protocol::JobSpec local_job(const std::string& compressor, nlohmann::json params) {
  auto spec = small_job(compressor);
  spec.training.mode = {"local_sgd", std::move(params)};
  if (compressor != "none") spec.compression.memory = {"residual", {}};
  return spec;
}

std::vector<at::Tensor> cloned(const Model& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor.detach().clone());
  return tensors;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

/// The models of a rank by step, and in which steps it has exchanged.
class Watcher final : public Progress {
 public:
  bool stop_wanted() const override { return stop_; }
  Result<void> step_done(const Replica& replica, const StepRecord& record) override {
    models.push_back(cloned(*replica.model));
    exchanged.push_back(record.exchanged);
    losses.push_back(record.loss);
    dense_bytes += record.dense_bytes;
    if (record.step == stop_after) stop_ = true;
    return {};
  }

  std::vector<std::vector<at::Tensor>> models;
  std::vector<bool> exchanged;
  std::vector<double> losses;
  std::uint64_t dense_bytes = 0;
  std::uint64_t stop_after = 0;

 private:
  bool stop_ = false;
};

struct Outcome {
  std::vector<Watcher> watchers;
  std::vector<Segment> shares;
  std::vector<Result<bool>> results;
};

Outcome train(const protocol::JobSpec& spec, std::uint32_t ranks, const Segment& checkpoint = {},
              std::uint64_t stop_rank_1_after = 0) {
  auto group = collectives::in_process_group(ranks);
  Outcome outcome{std::vector<Watcher>(ranks), std::vector<Segment>(ranks), std::vector<Result<bool>>(ranks, false)};
  run_ranks(ranks, [&](std::uint32_t rank) {
    auto replica = Replica::make(spec, rank, ranks).value();
    if (!checkpoint.empty()) replica->restore(checkpoint).value();
    if (rank == 1) outcome.watchers[rank].stop_after = stop_rank_1_after;
    replica->join(*group[rank]).value();
    outcome.results[rank] = replica->mode->train(*replica, outcome.watchers[rank]);
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

/// Local SGD as the papers write it, rank after rank: the models by step.
std::vector<std::vector<at::Tensor>> textbook(const protocol::JobSpec& spec, std::uint32_t ranks,
                                              const std::vector<std::uint64_t>& exchanges) {
  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<std::vector<at::Tensor>> velocities(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    replicas.push_back(Replica::make(spec, rank, ranks).value());
    for (const auto& tensor : cloned(*replicas[rank]->model)) velocities[rank].push_back(at::zeros_like(tensor));
  }
  std::vector<std::vector<at::Tensor>> models;
  for (std::uint64_t step = 0; step < replicas[0]->steps_total; ++step) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Replica& one = *replicas[rank];
      const auto batch = one.examples->batch(one.sampler.examples(step));
      at::cross_entropy_loss(one.model->forward(batch.input), batch.target).backward();
      const at::NoGradGuard no_grad;
      for (std::size_t p = 0; p < velocities[rank].size(); ++p) {
        at::Tensor parameter = one.model->parameters()[p].tensor;
        velocities[rank][p] = velocities[rank][p] * momentum + parameter.grad() + decay * parameter;
        parameter.sub_(rate * velocities[rank][p]);
        parameter.mutable_grad().reset();
      }
    }
    if (std::ranges::count(exchanges, step + 1) > 0) {
      const at::NoGradGuard no_grad;
      for (std::size_t p = 0; p < velocities[0].size(); ++p) {
        at::Tensor sum = at::zeros_like(velocities[0][p]);
        for (const auto& one : replicas) sum += one->model->parameters()[p].tensor;
        for (const auto& one : replicas) at::Tensor(one->model->parameters()[p].tensor).copy_(sum / static_cast<double>(ranks));
      }
    }
    models.push_back(cloned(*replicas[0]->model));
  }
  return models;
}

TEST(LocalSgd, IsThatOfTheTextbook) {
  constexpr std::uint32_t ranks = 3;
  const auto spec = local_job("none", {{"period", 4}, {"post_local_epoch", 0.3}});  // three steps of ten
  const auto outcome = train(spec, ranks);
  const auto& watcher = outcome.watchers[0];
  EXPECT_EQ(exchanges_of(watcher), (std::vector<std::uint64_t>{1, 2, 3, 7, 11, 15, 19, 20}));
  const auto expected = textbook(spec, ranks, exchanges_of(watcher));
  ASSERT_EQ(watcher.models.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    for (std::size_t p = 0; p < expected[step].size(); ++p) {
      EXPECT_TRUE(watcher.models[step][p].allclose(expected[step][p], 1e-4, 1e-6)) << "step " << step + 1;
    }
  }
}

TEST(LocalSgd, ModelsDifferBetweenExchangesAndAreEqualAfterThem) {
  for (const std::string compressor : {"none", "topk", "qsgd"}) {
    auto spec = local_job(compressor, {{"period", 3}});
    if (compressor == "qsgd") spec.compression.compressor.params = {};
    const auto outcome = train(spec, 2);
    const auto& [first, second] = std::tie(outcome.watchers[0], outcome.watchers[1]);
    for (std::size_t step = 0; step < first.models.size(); ++step) {
      EXPECT_EQ(same(first.models[step], second.models[step]), first.exchanged[step]) << compressor << " " << step + 1;
    }
    EXPECT_LT(first.losses.back(), 0.7 * first.losses.front()) << compressor;
  }
}

TEST(LocalSgd, AResumedJobEndsWithTheSameBytes) {
  for (const std::string compressor : {"none", "topk"}) {
    auto spec = local_job(compressor, {{"period", 4}});
    const auto whole = train(spec, 2);
    spec.training.max_steps = 12;
    const auto half = train(spec, 2);
    spec.training.max_steps.reset();
    const auto checkpoint = Segment::own(protocol::join_checkpoint(half.shares).value());
    const auto resumed = train(spec, 2, checkpoint);
    for (const std::uint32_t rank : {0, 1}) {
      EXPECT_EQ(resumed.watchers[rank].models.size() + 12, whole.watchers[rank].models.size());
      EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << compressor;
    }
  }
}

TEST(LocalSgd, RanksStopAtTheNextExchange) {
  const auto outcome = train(local_job("none", {{"period", 5}}), 2, {}, 7);
  for (const std::uint32_t rank : {0, 1}) {
    ASSERT_TRUE(outcome.results[rank]);
    EXPECT_FALSE(*outcome.results[rank]);
    EXPECT_EQ(outcome.watchers[rank].models.size(), 10U);
  }
}

TEST(LocalSgd, RefusesWhatAppliesMomentumToGradientsAndVotes) {
  const auto refusal = [](const std::string& compressor, const std::string& memory) {
    auto spec = local_job("none", {{"period", 4}});
    spec.compression.compressor = {compressor, {}};
    spec.compression.memory = {memory, {}};
    const auto made = Replica::make(spec, 0, 2);
    return made ? std::string("accepted") : made.error().message();
  };
  EXPECT_NE(refusal("dgc", "dgc").find("memory \"dgc\""), std::string::npos) << refusal("dgc", "dgc");
  EXPECT_NE(refusal("signsgd", "none").find("majority"), std::string::npos) << refusal("signsgd", "none");
  EXPECT_EQ(refusal("dgc", "residual"), "accepted");
}

}  // namespace
}  // namespace weir::training
