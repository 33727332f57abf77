// That nothing is lost where a bucket's route changes from owners to gathered payloads or to plain numbers, as `auto`
// lets it, or where the compressor lets a parameter go dense.

#include "training/exchange/owners_round.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "collectives/topologies/two_hop.hpp"
#include "collectives/transports/in_process.hpp"
#include "tests/compressors/tensors.hpp"
#include "tests/training/exchange_cases.hpp"
#include "training/exchange/bucket_round.hpp"

namespace weir::training::testing {
namespace {

using collectives::Task;
using compressors::test::gaussian;

const nlohmann::json none;

/// The compression of each rank.
struct Choice {
  const char* memory = "none";
  const char* compressor = "topk";
  nlohmann::json params = {{"ratio", 0.1}};
};

/// A rank of an exchange of one bucket with one parameter.
class Rank {
 public:
  Rank(const Choice& choice, std::unique_ptr<collectives::Communicator> group)
      : group_(std::move(group)),
        topology_(*group_),
        compression_(compressors::builtin()
                         .make({.compressor = choice.compressor,
                                .params = choice.params,
                                .memory = choice.memory,
                                .memory_params = none,
                                .setting = {}})
                         .value()),
        parameters_{{"p", at::zeros({40, 5})}},
        means_{{.tensor = at::zeros({40, 5}), .sparse = false, .positions = {}}},
        setting_{.parameters = parameters_,
                 .values = values_,
                 .means = means_,
                 .compression = compression_,
                 .gathered_mean = gathered_mean_,
                 .seed = 5,
                 .ranks = group_->size(),
                 .rank = group_->rank(),
                 .world = group_->size(),
                 .owners = group_->size()},
        round_(setting_, bucket_, /*votes=*/false, /*first_piece=*/1) {}

  Task<> step(Step step, Route route, at::Tensor gradient) {
    values_[0] = std::move(gradient);
    round_.begin(step, route);
    const collectives::Subject about{.version = step.number};
    if (!round_.dense_load().parameters.empty()) {
      if (auto done = round_.gather_dense(); !done) co_return done.error();
      auto summing = topology_.all_reduce(round_.dense(), round_.reduction(), about);
      if (auto done = co_await summing; !done) co_return done.error();
      co_return round_.conclude_dense();
    }
    if (auto done = round_.encode(0); !done) co_return done.error();
    auto& coded = round_.coded();
    if (route.by_owners) {
      auto there = topology_.to_owners(coded.outgoing(), coded.incoming(), about);
      if (auto done = co_await there; !done) co_return done.error();
      if (auto done = coded.combine(); !done) co_return done.error();
      if (auto done = coded.encode_combined(); !done) co_return done.error();
      auto back = topology_.from_owners(coded.combined(), coded.gathered(), about);
      if (auto done = co_await back; !done) co_return done.error();
    } else {
      auto gathering = topology_.all_gather(coded.payload(), coded.gathered(), about);
      if (auto done = co_await gathering; !done) co_return done.error();
    }
    co_return coded.decode(0);
  }

  const at::Tensor& mean() const { return means_[0].tensor; }

 private:
  std::unique_ptr<collectives::Communicator> group_;
  collectives::TwoHop topology_;
  compressors::Compression compression_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> values_{1};
  std::vector<Mean> means_;
  GatheredMean gathered_mean_;
  Bucket bucket_{.parameters = {0}, .coded = true};
  RoundSetting setting_;
  BucketRound round_;
};

constexpr Route to_owners{.form = Form::coded, .by_owners = true};
constexpr Route to_all{.form = Form::coded, .by_owners = false};
constexpr Route plain{.form = Form::float32, .by_owners = true};  // the same topology carries plain sums

constexpr std::uint32_t size = 4;

/// Ranks that go through steps together.
class Ranks {
 public:
  explicit Ranks(const Choice& choice, std::uint32_t count = size)
      : network_(collectives::InProcessNetwork::make(count)) {
    for (std::uint32_t r = 0; r < count; ++r) {
      ranks_.push_back(std::make_unique<Rank>(choice, network_->communicator(r)));
    }
  }

  /// Returns the mean, which has the same bits on all ranks.
  at::Tensor step(const Route& route, const std::vector<at::Tensor>& gradients) {
    std::vector<Task<>> tasks;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      tasks.push_back(ranks_[r]->step({.number = number_, .epoch = epoch}, route, gradients[r]));
    }
    ++number_;
    for (auto& task : tasks) task.start();
    network_->run_while_busy();
    for (auto& task : tasks) task.take_result().value();
    for (const auto& rank : ranks_) EXPECT_TRUE(rank->mean().equal(ranks_[0]->mean()));
    return ranks_[0]->mean();
  }

  double epoch = 0;  ///< of the next steps

 private:
  std::unique_ptr<collectives::InProcessNetwork> network_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint64_t number_ = 0;
};

std::vector<at::Tensor> gradients_of(std::uint64_t seed) {
  std::vector<at::Tensor> gradients;
  for (std::uint32_t r = 0; r < size; ++r) gradients.push_back(gaussian(200, 10 * seed + r).view({40, 5}));
  return gradients;
}

at::Tensor mean_of(const std::vector<at::Tensor>& gradients) { return at::stack(gradients).mean(0); }

const std::vector<at::Tensor> nothing(size, at::zeros({40, 5}));

class RouteChange : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Memories, RouteChange, ::testing::Values("residual", "dgc"));

TEST_P(RouteChange, SendsWhatTheOwnersHaveLeftOut) {
  Ranks ranks({.memory = GetParam()});
  at::Tensor given = at::zeros({40, 5});
  at::Tensor taken = at::zeros({40, 5});
  // Gradients in the first five steps; what is left then is sent in the others.
  for (std::uint64_t number = 0; number < 40; ++number) {
    const auto gradients = number < 5 ? gradients_of(number) : nothing;
    given += mean_of(gradients);
    taken += ranks.step(number % 10 < 7 && number < 20 ? to_owners : to_all, gradients);
  }
  EXPECT_TRUE(taken.allclose(given, 1e-4, 1e-5)) << (taken - given).abs().max();
}

TEST_P(RouteChange, ToPlainNumbersSendsAllAtOnce) {
  Ranks ranks({.memory = GetParam()});
  at::Tensor given = at::zeros({40, 5});
  at::Tensor taken = at::zeros({40, 5});
  for (std::uint64_t number = 0; number < 5; ++number) {
    const auto gradients = gradients_of(number);
    given += mean_of(gradients);
    taken += ranks.step(to_owners, gradients);
  }
  EXPECT_FALSE(taken.allclose(given, 1e-4, 1e-5)) << "a tenth of the entries is sent";
  taken += ranks.step(plain, nothing);
  EXPECT_TRUE(taken.allclose(given, 1e-4, 1e-5)) << (taken - given).abs().max();
}

/// EF21's ranks keep an estimate of the mean, to which only what is sent is added: an owner's residual that stays
/// behind would be missing in it for ever.
TEST(EstimateOfTheMean, IsThatOfTheGradientsWhateverTheRoutesWere) {
  const auto gradients = gradients_of(1);
  for (const Route& between : {to_owners, plain}) {
    Ranks ranks({.memory = "ef21"});
    at::Tensor estimate;
    for (int i = 0; i < 3; ++i) estimate = ranks.step(to_owners, gradients);
    EXPECT_FALSE(estimate.allclose(mean_of(gradients), 1e-4, 1e-5)) << "a tenth of the entries is sent";
    ranks.step(between, gradients);
    ranks.step(to_owners, gradients);
    for (int i = 0; i < 30; ++i) estimate = ranks.step(to_all, gradients);
    EXPECT_TRUE(estimate.allclose(mean_of(gradients), 1e-4, 1e-5)) << (estimate - mean_of(gradients)).abs().max();
  }
}

/// In its first epoch a parameter goes dense, later a tenth of its entries is sent.
const nlohmann::json with_warmup = {{"ratio", 0.1}, {"min_kept", 1}, {"warmup_epochs", 1}, {"value_codec", "fp32"}};

/// As in a job that goes on from one with a shorter warm-up.
TEST_P(RouteChange, ToADenseParameterSendsAllAtOnce) {
  Ranks ranks({.memory = GetParam(), .compressor = "dgc", .params = with_warmup});
  at::Tensor given = at::zeros({40, 5});
  at::Tensor taken = at::zeros({40, 5});
  ranks.epoch = 2;
  for (std::uint64_t number = 0; number < 5; ++number) {
    const auto gradients = gradients_of(number);
    given += mean_of(gradients);
    taken += ranks.step(to_owners, gradients);
  }
  EXPECT_FALSE(taken.allclose(given, 1e-4, 1e-5)) << "a tenth of the entries is sent";
  ranks.epoch = 0;
  taken += ranks.step(to_owners, nothing);
  EXPECT_TRUE(taken.allclose(given, 1e-4, 1e-5)) << (taken - given).abs().max();
}

TEST(EstimateOfTheMean, IsThatOfTheGradientsAfterADenseParameter) {
  const auto gradients = gradients_of(1);
  Ranks ranks({.memory = "ef21", .compressor = "dgc", .params = with_warmup});
  ranks.epoch = 2;
  at::Tensor estimate;
  for (int i = 0; i < 3; ++i) estimate = ranks.step(to_owners, gradients);
  EXPECT_FALSE(estimate.allclose(mean_of(gradients), 1e-4, 1e-5)) << "a tenth of the entries is sent";
  for (const double epoch : {0, 2}) {
    ranks.epoch = epoch;
    for (int i = 0; i < 3; ++i) {
      estimate = ranks.step(to_owners, gradients);
      EXPECT_TRUE(estimate.allclose(mean_of(gradients), 1e-4, 1e-5)) << (estimate - mean_of(gradients)).abs().max();
    }
  }
}

/// Of N steps with the same gradients of mean x, in which the ranks agree on y, N |mean(y) - x|^2 / sum(var(y)) has
/// expectation 1 where the steps are independent, and less where owners send later what they have left out. Scaled
/// twice, y would be several times x.
TEST(Owners, AgreeOnTheMeanInExpectation) {
  constexpr int steps = 300;
  std::vector<std::string> tested;
  for (const auto& [name, sets] : compressor_params()) {
    for (const auto& params : sets) {
      const auto traits = compressors::builtin().make_compressor(name, params).value()->traits();
      // Coded values are rounded, which adds a bias of a small part of the deviation.
      const bool unbiased = !traits.biased || params.value("unbiased", false);
      const bool gathers = traits.passes.size() == 1 && traits.passes[0] == compressors::Reduction::gather;
      if (!unbiased || traits.lossless || !gathers || !traits.fits_owners()) continue;
      tested.push_back(name);
      Ranks ranks({.compressor = name.c_str(), .params = params});
      const auto gradients = gradients_of(7);
      at::Tensor sum = at::zeros({40, 5}, at::kDouble);
      at::Tensor squares = at::zeros({40, 5}, at::kDouble);
      for (int i = 0; i < steps; ++i) {
        const at::Tensor agreed = ranks.step(to_owners, gradients).to(at::kDouble);
        sum += agreed;
        squares += agreed * agreed;
      }
      const at::Tensor mean = sum / steps;
      const double variance = (squares / steps - mean * mean).sum().item<double>();
      const double deviation = (mean - mean_of(gradients)).square().sum().item<double>();
      EXPECT_LE(steps * deviation / variance, 2) << name << params;
    }
  }
  EXPECT_THAT(tested, ::testing::IsSupersetOf({"qsgd", "terngrad", "natural"}));
}

/// Six times a sixth, half of them negative, do not add up to zero.
TEST(Votes, AreTiesAtAnOwnerWhateverTheirSumIsRoundedTo) {
  Ranks ranks({.compressor = "signsgd", .params = none}, 6);
  std::vector<at::Tensor> gradients(6, at::ones({40, 5}));
  for (std::size_t r = 3; r < 6; ++r) gradients[r] = -at::ones({40, 5});
  const auto up = ranks.step(to_owners, gradients).gt(0).sum().item<std::int64_t>();
  EXPECT_GT(up, 60) << "a coin for each of 200 entries";
  EXPECT_LT(up, 140) << "a coin for each of 200 entries";
}

/// What an owner of DeMo's coefficients does not send in a step, it sends in later ones.
TEST(Votes, OfCoefficientsComeBackInLaterSteps) {
  Ranks ranks({.memory = "none", .compressor = "demo", .params = {{"per_chunk", 1}, {"sign", false}}});
  Ranks voting({.memory = "none", .compressor = "demo", .params = {{"per_chunk", 1}}});
  const auto gradients = gradients_of(3);
  for (auto* group : {&ranks, &voting}) group->step(to_owners, gradients);
  for (auto* group : {&ranks, &voting}) {
    const auto later = group->step(to_owners, nothing);
    EXPECT_GT(later.abs().max().item<float>(), 0) << "the owners have coefficients left";
  }
}

}  // namespace
}  // namespace weir::training::testing
