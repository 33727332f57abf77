#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "mode_runs.hpp"

namespace weir::training {
namespace {

using testing::cloned;
using testing::Run;
using testing::same;
using testing::small_job;
using testing::train;

protocol::JobSpec diloco_job(const std::string& compressor, nlohmann::json params) {
  auto spec = small_job(compressor);
  spec.training.mode = {"diloco", std::move(params)};
  spec.training.optimizer = {"adamw", {{"lr", 0.01}, {"weight_decay", 0.01}}};
  if (compressor != "none") spec.compression.memory = {"residual", {{"beta", 0.95}}};
  return spec;
}

/// What the mode's parameters are.
struct Textbook {
  std::uint64_t period = 4;
  double lr = 0.7;
  double momentum = 0.9;
  std::uint64_t fragments = 1;
  std::uint64_t delay = 0;
  double merge = 0.5;
  std::optional<std::uint64_t> steps = {};  ///< of the training, if not the job's
};

struct Models {
  std::vector<std::vector<at::Tensor>> of_rank_1;
  std::vector<at::Tensor> common;  ///< at the end
};

/// Streaming DiLoCo as the paper writes it, rank after rank, with the inner optimizer of the job. `fragment_of`: by
/// parameter.
Models textbook(const protocol::JobSpec& spec, std::uint32_t ranks, const Textbook& is,
                const std::vector<std::uint32_t>& fragment_of) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) replicas.push_back(Replica::make(spec, rank, ranks).value());
  const auto parameter = [&](std::uint32_t rank, std::size_t p) {
    return replicas[rank]->model->parameters()[p].tensor;
  };
  auto common = cloned(replicas[0]->model->parameters());
  std::vector<at::Tensor> momenta;
  for (const auto& tensor : common) momenta.push_back(at::zeros_like(tensor));
  Models models;
  std::vector<at::Tensor> outer_gradients(common.size());
  std::vector<bool> whole_period(is.fragments);  // lies behind the exchange
  const auto apply = [&](std::uint32_t fragment, double kept) {
    for (std::size_t p = 0; p < common.size(); ++p) {
      if (fragment_of[p] != fragment) continue;
      at::Tensor step = outer_gradients[p];
      if (whole_period[fragment]) {
        momenta[p] = is.momentum * momenta[p] + outer_gradients[p];
        step = outer_gradients[p] + is.momentum * momenta[p];
      }
      common[p] = common[p] - is.lr * step;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        parameter(rank, p).copy_(kept * parameter(rank, p) + (1 - kept) * common[p]);
      }
    }
  };
  const auto gather = [&](std::uint32_t fragment) {
    for (std::size_t p = 0; p < common.size(); ++p) {
      if (fragment_of[p] != fragment) continue;
      outer_gradients[p] = at::zeros_like(common[p]);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) outer_gradients[p] += common[p] - parameter(rank, p);
      outer_gradients[p] /= static_cast<double>(ranks);
    }
  };
  const std::uint64_t total = replicas[0]->length.steps_total;
  std::vector<std::optional<std::uint64_t>> begun(is.fragments);
  for (std::uint64_t step = 0; step < total; ++step) {
    for (auto& one : replicas) {
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
    const std::uint64_t done = step + 1;
    for (std::uint32_t f = 0; f < is.fragments; ++f) {
      if (begun[f] && (*begun[f] + is.delay == done || done == total)) {
        apply(f, *begun[f] < done ? is.merge : 0);
        begun[f].reset();
      }
    }
    for (std::uint32_t f = 0; f < is.fragments; ++f) {
      const std::uint64_t offset = f * is.period / is.fragments;
      const bool due = (done > offset || (f > 0 && done == offset)) && (done - offset) % is.period == 0;
      if (!due && done != total) continue;
      gather(f);
      whole_period[f] = due;
      begun[f] = done;
      if (is.delay == 0 || done == total) {
        apply(f, 0);
        begun[f].reset();
      }
    }
    models.of_rank_1.push_back(cloned(replicas[1]->model->parameters()));
  }
  models.common = std::move(common);
  return models;
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t p = 0; p < a.size(); ++p) EXPECT_TRUE(a[p].allclose(b[p], 1e-4, 1e-5)) << what << ", tensor " << p;
}

TEST(DiLoCo, IsThatOfTheTextbook) {
  constexpr std::uint32_t ranks = 3;
  for (const Textbook& is : {Textbook{}, Textbook{.period = 4, .fragments = 2},
                             Textbook{.period = 6, .lr = 0.4, .momentum = 0.5, .fragments = 2, .delay = 2},
                             Textbook{.period = 5, .delay = 3, .merge = 0.25},
                             // The exchange that began after 8 steps has just ended when the last one begins.
                             Textbook{.period = 4, .delay = 2, .merge = 0, .steps = 10}}) {
    auto spec = diloco_job("none", {{"period", is.period},
                                    {"outer_lr", is.lr},
                                    {"outer_momentum", is.momentum},
                                    {"fragments", is.fragments},
                                    {"delay", is.delay},
                                    {"merge", is.merge}});
    if (is.steps) spec.training.max_steps = is.steps;
    // The first matrix has most of the entries.
    const std::vector<std::uint32_t> fragment_of =
        is.fragments == 1 ? std::vector<std::uint32_t>{0, 0, 0, 0} : std::vector<std::uint32_t>{0, 1, 1, 1};
    const auto outcome = train(spec, ranks);
    const auto expected = textbook(spec, ranks, is, fragment_of);
    const auto& watcher = outcome.watchers[1];
    ASSERT_EQ(watcher.models.size(), expected.of_rank_1.size());
    for (std::size_t step = 0; step < watcher.models.size(); ++step) {
      expect_close(watcher.models[step], expected.of_rank_1[step],
                   std::to_string(is.fragments) + " fragments, step " + std::to_string(step + 1));
    }
    for (const auto& any : outcome.watchers) expect_close(any.common.back(), expected.common, "the common model");
  }
}

TEST(DiLoCo, WithoutMomentumAndDelayIsLocalSgdBitForBit) {
  auto spec = diloco_job("none", {{"period", 4}, {"outer_lr", 1.0}, {"outer_momentum", 0}});
  const auto streamed = train(spec, 3);
  spec.training.mode = {"local_sgd", {{"period", 4}}};
  const auto local = train(spec, 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(local.watchers[rank].models.size(), streamed.watchers[rank].models.size());
    for (std::size_t step = 0; step < local.watchers[rank].models.size(); ++step) {
      EXPECT_TRUE(same(local.watchers[rank].models[step], streamed.watchers[rank].models[step])) << step + 1;
    }
  }
}

TEST(DiLoCo, TheCommonModelIsEqualOnAllRanksWhateverTheCompressor) {
  for (const std::string compressor : {"none", "topk", "blockk", "qsgd"}) {
    auto spec = diloco_job(compressor, {{"period", 4}, {"fragments", 2}, {"delay", 1}, {"outer_momentum", 0.5}});
    if (compressor == "qsgd" || compressor == "blockk") spec.compression.compressor.params = nlohmann::json::object();
    spec.training.epochs = 4;
    const auto outcome = train(spec, 3);
    const auto& first = outcome.watchers[0];
    ASSERT_GT(first.common.size(), 10U);
    EXPECT_FALSE(same(first.models[0], outcome.watchers[1].models[0]));
    for (const auto& watcher : outcome.watchers) {
      ASSERT_EQ(watcher.settled(), first.settled());
      for (std::size_t i = 0; i < first.common.size(); ++i) EXPECT_TRUE(same(watcher.common[i], first.common[i]));
      EXPECT_TRUE(same(watcher.models.back(), watcher.common.back())) << "all go on from the common model at the end";
    }
    EXPECT_LT(first.records.back().loss, 0.5 * first.records.front().loss) << compressor;
  }
}

protocol::JobSpec job_with_statistics(nlohmann::json params) {
  auto spec = testing::with_batch_norm(diloco_job("none", std::move(params)));
  spec.compression.apply_to = "models";
  return spec;
}

/// Without counts.
std::vector<at::Tensor> statistics_of(std::vector<at::Tensor> buffers) {
  std::erase_if(buffers, [](const at::Tensor& buffer) { return buffer.scalar_type() != at::kFloat; });
  return buffers;
}

// The outer optimizer would multiply them, and its momentum carry them on.
TEST(DiLoCo, OfModelsStatisticsAreTheMeanOfTheWorkers) {
  constexpr std::uint32_t ranks = 2;
  const auto spec = job_with_statistics({{"period", 1}, {"outer_lr", 0.5}, {"outer_momentum", 0.9}});
  std::vector<std::unique_ptr<Replica>> replicas;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    replicas.push_back(Replica::make(spec, rank, ranks).value());
    auto& one = *replicas.back();
    one.model->set_training(true);
    (void)one.model->forward(one.examples->batch(one.sampler.examples(0)).input);
  }
  auto one_step = spec;
  one_step.training.max_steps = 1;
  const auto outcome = train(one_step, ranks);
  const auto found = statistics_of(outcome.watchers[0].buffers.back());
  ASSERT_GT(found.size(), 2U);
  const auto first = statistics_of(cloned(replicas[0]->model->buffers()));
  const auto second = statistics_of(cloned(replicas[1]->model->buffers()));
  for (std::size_t b = 0; b < found.size(); ++b) {
    EXPECT_FALSE(first[b].equal(second[b]));
    EXPECT_TRUE(found[b].allclose((first[b] + second[b]) / 2.0, 1e-4, 1e-6)) << b;
  }
}

TEST(DiLoCo, OfModelsTheWholeModelOfTheTrainingIsCommonAndResumedBitForBit) {
  for (const nlohmann::json& params :
       {nlohmann::json{{"period", 3}}, nlohmann::json{{"period", 4}, {"fragments", 2}, {"delay", 1}}}) {
    const auto spec = job_with_statistics(params);
    const auto whole = train(spec, 2);
    const auto& [one, other] = std::tie(whole.watchers[0], whole.watchers[1]);
    ASSERT_EQ(one.settled(), other.settled());
    ASSERT_GT(one.common.size(), 1U);
    for (std::size_t i = 0; i < one.common.size(); ++i) EXPECT_TRUE(same(one.common[i], other.common[i])) << params;
    EXPECT_FALSE(same(statistics_of(one.buffers[0]), statistics_of(other.buffers[0])));
    EXPECT_TRUE(same(statistics_of(one.buffers.back()), statistics_of(other.buffers.back()))) << "all end with it";
    const auto stopped = train(spec, 2, {.stop_after = 1});
    const auto done = stopped.watchers[0].models.size();
    ASSERT_LT(done, one.models.size());
    const auto resumed = train(spec, 2, {.checkpoint = stopped.checkpoint()});
    for (const std::uint32_t rank : {0U, 1U}) {
      EXPECT_EQ(resumed.watchers[rank].models.size() + done, one.models.size());
      EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes())) << params << rank;
    }
  }
}

// Without momentum, the outer optimizer makes of the sum of three ranks what it makes of the mean at three times its
// rate.
TEST(DiLoCo, AppliesTheAggregateOfTheDifferences) {
  for (const int fragments : {1, 2}) {
    const auto with = [&](const std::string& aggregation, double rate) {
      auto spec =
          diloco_job("none", {{"period", 4}, {"fragments", fragments}, {"outer_lr", rate}, {"outer_momentum", 0}});
      spec.compression.aggregation = aggregation;
      const auto outcome = train(spec, 3);
      for (const auto& result : outcome.results) EXPECT_TRUE(result);
      return outcome.watchers[2].models.back();
    };
    const auto mean = with("mean", 0.3);
    expect_close(with("sum", 0.1), mean, "the sum");
    EXPECT_TRUE(same(with("weighted", 0.3), mean)) << "all have trained on as many samples";
    const auto smallest = with("min", 0.3);
    const auto largest = with("max", 0.3);
    EXPECT_FALSE(same(smallest, mean));
    EXPECT_FALSE(same(smallest, largest));
  }
}

TEST(DiLoCo, MayBeginOrCeaseToHaveAnOuterMomentumWhenResumed) {
  const auto with = [](double momentum) {
    return diloco_job("none", {{"period", 4}, {"outer_lr", 0.5}, {"outer_momentum", momentum}});
  };
  for (const double before : {0.0, 0.5}) {
    const auto stopped = train(with(before), 2, {.stop_after = 6});
    const auto changed = train(with(0.5 - before), 2, {.checkpoint = stopped.checkpoint()});
    for (const auto& result : changed.results) {
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_TRUE(*result);
    }
    EXPECT_TRUE(same(changed.watchers[0].models.back(), changed.watchers[1].models.back()));
  }
}

/// What the mode has restored from a checkpoint and would save again, under names with this beginning.
std::vector<at::Tensor> restored_state(const protocol::JobSpec& spec, const Segment& checkpoint,
                                       std::string_view beginning) {
  const auto replica = Replica::make(spec, 0, 2).value();
  replica->restore(checkpoint).value();
  auto state = replica->mode->save().common;
  std::erase_if(state, [&](const NamedTensor& one) { return !one.name.starts_with(beginning); });
  return cloned(state);
}

/// How often the four tensors of the model have been exchanged.
std::vector<std::int64_t> exchanges_in(const protocol::JobSpec& spec, const Segment& checkpoint) {
  const auto counts = restored_state(spec, checkpoint, "counts").at(0);
  const auto* const first = counts.data_ptr<std::int64_t>();
  return {first, first + 4};
}

TEST(DiLoCo, TheOuterMomentumShrinksWithThePeriod) {
  const auto with = [](std::uint64_t period) { return diloco_job("none", {{"period", period}}); };
  const auto checkpoint = train(with(8), 2, {.stop_after = 5}).checkpoint();
  const auto restored = [&](std::uint64_t period) {
    return restored_state(with(period), checkpoint, "outer_momentum.");
  };
  const auto saved = restored(8);
  ASSERT_EQ(saved.size(), 4U);
  EXPECT_GT(saved[0].abs().max().item<float>(), 0);
  EXPECT_TRUE(same(restored(16), saved)) << "it does not grow";
  const auto halves = restored(4);
  for (std::size_t p = 0; p < saved.size(); ++p) EXPECT_TRUE(halves.at(p).equal(saved[p] * 0.5)) << p;
}

// Exchanges are due by the steps since the beginning. After the last exchange of a training, or with another period,
// the next one may have a part of a period behind it, and makes the step of an outer optimizer without momentum.
TEST(DiLoCo, HasNoOuterMomentumForAPartOfAPeriodWhenResumed) {
  const auto with = [](std::uint64_t period, double momentum, std::uint64_t steps) {
    auto spec = diloco_job("none", {{"period", period}, {"outer_momentum", momentum}});
    spec.training.max_steps = steps;
    return spec;
  };
  struct Case {
    Segment checkpoint;
    std::uint64_t period;
    std::uint64_t begin;  ///< step of the checkpoint
    std::uint64_t whole;  ///< the first exchange that has a whole period behind it is after this step
    std::uint64_t end;
  };
  // Exchanges after 10, 15 and 16 steps, and after 16, 24 and 28.
  const Case shorter{train(with(8, 0.9, 32), 2, {.stop_after = 5}).checkpoint(), 5, 8, 15, 16};
  const Case longer{train(with(8, 0.9, 12), 2).checkpoint(), 8, 12, 24, 28};
  for (const Case* const one : {&shorter, &longer}) {
    const auto models = [&](double momentum) {
      return train(with(one->period, momentum, one->end), 2, {.checkpoint = one->checkpoint}).watchers[0].models;
    };
    const auto found = models(0.9);
    const auto without = models(0);
    ASSERT_EQ(found.size(), one->end - one->begin);
    ASSERT_EQ(without.size(), found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::uint64_t step = one->begin + i + 1;
      EXPECT_EQ(same(found[i], without[i]), step < one->whole) << "period " << one->period << ", step " << step;
    }
  }
}

// The checkpoint is of step 9. After 12 steps the first matrix has six behind it, and the rest three: the period is 4.
TEST(DiLoCo, ATensorHasOuterMomentumForItsOwnPeriodWhereFragmentsChange) {
  const auto streamed = diloco_job("none", {{"period", 6}, {"fragments", 2}});
  const auto checkpoint = train(streamed, 2, {.stop_after = 7}).checkpoint();
  const auto after_12 = [&](double momentum) {
    auto spec = diloco_job("none", {{"period", 4}, {"outer_momentum", momentum}});
    spec.training.max_steps = 13;
    return train(spec, 2, {.checkpoint = checkpoint}).watchers[0].models.at(2);
  };
  const auto found = after_12(0.9);
  const auto without = after_12(0);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_FALSE(found[0].equal(without[0]));
  for (std::size_t p = 1; p < found.size(); ++p) EXPECT_TRUE(found[p].equal(without[p])) << p;
}

// The first matrix is fragment 0, exchanged after 6 steps, and the rest fragment 1, after 3 and 9.
TEST(DiLoCo, ExchangesAreCountedByTensorOverTheWholeTraining) {
  const auto streamed = diloco_job("none", {{"period", 6}, {"fragments", 2}});
  const auto stopped = train(streamed, 2, {.stop_after = 7}).checkpoint();
  EXPECT_EQ(exchanges_in(streamed, stopped), (std::vector<std::int64_t>{1, 2, 2, 2}));
  auto whole = diloco_job("none", {{"period", 4}});
  whole.training.max_steps = 12;
  const auto finished = train(whole, 2, {.checkpoint = stopped}).checkpoint();
  EXPECT_EQ(exchanges_in(whole, finished), (std::vector<std::int64_t>{3, 3, 3, 3})) << "once more, all together";
  // The last exchange of a training counts, too, when it goes on.
  whole.training.max_steps = 14;
  const auto longer = train(whole, 2, {.checkpoint = finished}).checkpoint();
  whole.training.max_steps = 20;
  const auto longest = train(whole, 2, {.checkpoint = longer}).checkpoint();
  EXPECT_EQ(exchanges_in(whole, longest), (std::vector<std::int64_t>{6, 6, 6, 6})) << "after 12, 14, 16 and 20 steps";
}

TEST(DiLoCo, SaysHowManyStepsWereLocal) {
  const auto outcome = train(diloco_job("none", {{"period", 6}, {"fragments", 2}, {"delay", 2}}), 3);
  std::vector<std::uint64_t> local_steps;
  for (const auto& record : outcome.watchers[1].records) {
    EXPECT_EQ(record.local_steps > 0, record.exchanged);
    if (record.exchanged) local_steps.push_back(record.local_steps);
  }
  EXPECT_EQ(local_steps, (std::vector<std::uint64_t>{5, 3, 3, 3, 3, 3}));
}

// The first parts end after steps 5 and 8: from then on all tensors have been exchanged once.
TEST(DiLoCo, ARecordSaysHowOftenTheWholeModelWasExchangedBefore) {
  const auto outcome = train(diloco_job("none", {{"period", 6}, {"fragments", 2}, {"delay", 2}}), 2, {.stop_after = 9});
  std::vector<std::uint64_t> rounds;
  for (const auto& record : outcome.watchers[0].records) rounds.push_back(record.rounds.value());
  EXPECT_EQ(rounds, (std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

// Exchanges of fragment 0 begin after steps 6, 12 and 18, of fragment 1 after 3, 9 and 15; their results come two
// later.
TEST(DiLoCo, EndsExchangesAfterTheDelay) {
  const auto outcome = train(diloco_job("none", {{"period", 6}, {"fragments", 2}, {"delay", 2}}), 3);
  EXPECT_EQ(outcome.watchers[0].settled(), (std::vector<std::uint64_t>{5, 8, 11, 14, 17, 20}));
}

TEST(DiLoCo, AStopInADelayIsAgreedOnAndResumedBitForBit) {
  for (const std::string compressor : {"none", "topk"}) {
    const auto spec = diloco_job(compressor, {{"period", 6}, {"fragments", 2}, {"delay", 2}});
    const auto whole = train(spec, 3);
    // Rank 1 wants to stop after step 7, when an exchange is under way for which all have voted before.
    const auto stopped = train(spec, 3, {.stop_after = 7});
    for (const auto& result : stopped.results) {
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_FALSE(*result);
    }
    for (const auto& watcher : stopped.watchers) EXPECT_EQ(watcher.models.size(), 11U) << compressor;
    const auto resumed = train(spec, 3, {.checkpoint = stopped.checkpoint()});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(resumed.watchers[rank].models.size() + 11, whole.watchers[rank].models.size());
      EXPECT_TRUE(std::ranges::equal(whole.shares[rank].bytes(), resumed.shares[rank].bytes()))
          << compressor << ", rank " << rank;
    }
  }
}

TEST(DiLoCo, FragmentsShareTheEntries) {
  const auto spec = diloco_job("none", {{"period", 100}, {"fragments", 64}});
  const auto replica = Replica::make(spec, 0, 2).value();
  // More fragments than tensors: one for each.
  EXPECT_EQ(replica->mode->groups(replica->model->parameters()), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  std::vector<NamedTensor> tensors;
  for (const int entries : {5, 5, 10, 1, 1, 1, 7}) tensors.push_back({"", at::zeros({entries})});
  auto three = diloco_job("none", {{"period", 100}, {"fragments", 3}});
  EXPECT_EQ(Replica::make(three, 0, 2).value()->mode->groups(tensors),
            (std::vector<std::uint32_t>{0, 0, 1, 2, 2, 2, 2}));
}

TEST(DiLoCo, RefusesWhatCannotBe) {
  using testing::refusal;
  EXPECT_NE(refusal(diloco_job("none", {{"period", 4}, {"fragments", 5}})).find("must be at most \"period\""),
            std::string::npos);
  EXPECT_NE(refusal(diloco_job("none", {{"period", 9}, {"fragments", 2}, {"delay", 4}})).find("delay must be less"),
            std::string::npos);
  EXPECT_EQ(refusal(diloco_job("none", {{"period", 9}, {"fragments", 2}, {"delay", 3}})), "");
  auto votes = diloco_job("signsgd", {});
  votes.compression.compressor.params = nlohmann::json::object();
  votes.compression.memory = {"none", {}};
  EXPECT_NE(refusal(votes).find("majority"), std::string::npos) << refusal(votes);
}

TEST(DiLoCo, RefusesTheStateOfAnotherMode) {
  const auto spec = diloco_job("none", {{"period", 4}});
  auto other = spec;
  other.training.mode = {"local_sgd", {{"period", 4}}};
  const auto local = train(other, 2);
  const auto restored = Replica::make(spec, 0, 2).value()->restore(local.checkpoint());
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::malformed) << restored.error().message();
}

}  // namespace
}  // namespace weir::training
