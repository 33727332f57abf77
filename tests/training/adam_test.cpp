#include "training/optimizers/adam.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/errc.hpp"
#include "optimizer_case.hpp"

namespace weir::training {
namespace {

using ::testing::HasSubstr;
using testing::step;

/// Every optimizer with moments.
class EveryAdam : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Optimizer> make(const std::vector<NamedTensor>& parameters, nlohmann::json params = {}) {
    if (params.is_null()) params = {{"weight_decay", 0.1}};
    return optimizers().make(GetParam(), params, OptimizerSetting{parameters}).value();
  }
};
INSTANTIATE_TEST_SUITE_P(Adam, EveryAdam, ::testing::Values("adam", "adamw", "lamb"));

template <class Reference, class Options>
void expect_torch(const char* name, double weight_decay) {
  torch::manual_seed(1);
  const auto start = torch::randn({17, 3});
  auto reference = start.clone().set_requires_grad(true);
  auto mine = start.clone().set_requires_grad(true);
  Reference torch_optimizer({reference}, Options(0.1).betas({0.8, 0.95}).eps(1e-7).weight_decay(weight_decay));
  const nlohmann::json params{{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-7}, {"weight_decay", weight_decay}};
  const auto optimizer = optimizers().make(name, params, OptimizerSetting{{{"w", mine}}}).value();
  for (int i = 0; i < 6; ++i) {
    const auto gradient = torch::randn({17, 3});
    const double rate = i < 3 ? 0.1 : 0.02;
    reference.mutable_grad() = gradient.clone();
    static_cast<Options&>(torch_optimizer.param_groups()[0].options()).lr(rate);
    torch_optimizer.step();
    step(*optimizer, gradient, rate);
    EXPECT_TRUE(mine.allclose(reference, 1e-6, 0)) << name << " " << weight_decay << " step " << i;
  }
}

TEST(Adam, IsThatOfTorch) {
  for (const double decay : {0.0, 0.05}) {
    expect_torch<torch::optim::Adam, torch::optim::AdamOptions>("adam", decay);
    expect_torch<torch::optim::AdamW, torch::optim::AdamWOptions>("adamw", decay);
  }
}

TEST_P(EveryAdam, ContinuesBitForBitFromSavedState) {
  torch::manual_seed(2);
  const auto one = torch::randn({5, 2});
  const auto first = make({{"w", one}});
  EXPECT_TRUE(first->save().empty());
  for (int i = 0; i < 3; ++i) step(*first, torch::randn({5, 2}), 0.1);
  const auto two = one.clone();
  const auto second = make({{"w", two}});
  ASSERT_TRUE(second->restore(first->save()));
  for (int i = 0; i < 2; ++i) {
    const auto gradient = torch::randn({5, 2});
    step(*first, gradient.clone(), 0.1);
    step(*second, gradient.clone(), 0.1);
    EXPECT_TRUE(one.equal(two)) << i;
  }
  ASSERT_TRUE(second->restore({}));
  EXPECT_TRUE(second->save().empty());
}

TEST_P(EveryAdam, MovesEverywhereForASparseMean) {
  torch::manual_seed(3);
  const auto expected = torch::randn({4, 5});
  const auto parameter = expected.clone();
  const auto of_dense = make({{"w", expected}});
  const auto of_sparse = make({{"w", parameter}});
  for (int i = 0; i < 3; ++i) {
    const auto mean = torch::zeros({4, 5});
    const std::vector<std::uint32_t> positions{3, 17, 0, 17};
    // Other entries each time: those of the step before move on by their moments.
    for (const auto position : positions) mean.view(-1)[(position + i) % 20] = torch::randn({}).item<float>();
    step(*of_dense, mean.clone(), 0.1);
    std::vector<Mean> means{{.tensor = mean, .sparse = true, .positions = positions}};
    of_sparse->step(means, 0.1);
    EXPECT_TRUE(parameter.equal(expected)) << i;
  }
}

/// The model's word counts, whatever the extents: here a matrix is spared and a vector is not.
TEST_P(EveryAdam, NoDecaySparesWhatTheModelDeclares) {
  const auto run = [](const nlohmann::json& params) {
    torch::manual_seed(4);
    const auto matrix = torch::randn({3, 3});
    const auto vector = torch::randn({3});
    const OptimizerSetting setting{{{"w", matrix}, {"b", vector}}, MomentumOwner::optimizer, {false, true}};
    const auto optimizer = optimizers().make(GetParam(), params, setting).value();
    std::vector<Mean> means{{.tensor = torch::randn({3, 3}), .sparse = false, .positions = {}},
                            {.tensor = torch::randn({3}), .sparse = false, .positions = {}}};
    optimizer->step(means, 0.1);
    return std::pair(matrix, vector);
  };
  const auto decayed = run({{"weight_decay", 0.5}});
  const auto spared = run({{"weight_decay", 0.5}, {"no_decay", true}});
  EXPECT_TRUE(spared.second.equal(decayed.second));
  EXPECT_FALSE(spared.first.equal(decayed.first));
  if (GetParam() != "lamb") {
    EXPECT_TRUE(spared.first.equal(run({{"weight_decay", 0}}).first));
  }
}

TEST_P(EveryAdam, GroupsHaveRatesAndDecaysOfTheirOwn) {
  const auto run = [](const nlohmann::json& params, double rate) {
    torch::manual_seed(4);
    const auto first = torch::randn({3, 3});
    const auto second = torch::randn({3});
    const OptimizerSetting setting{{{"w", first}, {"b", second}}, MomentumOwner::optimizer, {true, false}};
    const auto optimizer = optimizers().make(GetParam(), params, setting).value();
    for (int i = 0; i < 3; ++i) {
      std::vector<Mean> means{{.tensor = torch::randn({3, 3}), .sparse = false, .positions = {}},
                              {.tensor = torch::randn({3}), .sparse = false, .positions = {}}};
      optimizer->step(means, rate);
    }
    return std::pair(first, second);
  };
  const nlohmann::json plain{{"weight_decay", 0.5}};
  nlohmann::json grouped = plain;
  grouped["groups"] = nlohmann::json::array({{{"parameters", "w"}, {"lr_scale", 0.5}}});
  EXPECT_TRUE(run(grouped, 0.1).first.equal(run(plain, 0.05).first));
  EXPECT_TRUE(run(grouped, 0.1).second.equal(run(plain, 0.1).second));
  grouped["groups"] = nlohmann::json::array({{{"parameters", "w"}, {"weight_decay", 0.25}}});
  EXPECT_TRUE(run(grouped, 0.1).first.equal(run({{"weight_decay", 0.25}}, 0.1).first));
  grouped["groups"] = nlohmann::json::array({{{"parameters", "b"}, {"weight_decay", 0.5}}});
  grouped["no_decay"] = true;
  EXPECT_TRUE(run(grouped, 0.1).second.equal(run(plain, 0.1).second)) << "the group's word counts before the model's";
}

TEST_P(EveryAdam, RefusesTheMomentumOfOthers) {
  const auto of = [](MomentumOwner owner) {
    const auto made = optimizers().make(GetParam(), nullptr, OptimizerSetting{{}, owner});
    EXPECT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
    return made.error().context;
  };
  EXPECT_THAT(of(MomentumOwner::memory), HasSubstr("optimizer " + GetParam() +
                                                   " does not fit this compression: the "
                                                   "memory applies the optimizer's momentum before compression"));
  EXPECT_THAT(of(MomentumOwner::method), HasSubstr("has a momentum of its own in place of the optimizer's"));
  EXPECT_THAT(of(MomentumOwner::method), HasSubstr("use optimizer sgd"));
}

TEST_P(EveryAdam, RefusesStateOfAnotherModel) {
  const auto parameter = torch::zeros({2});
  const auto good = make({{"w", parameter}});
  step(*good, torch::ones({2}), 0.1);
  const auto refusal = [](const std::vector<NamedTensor>& state) {
    return make({{"w", torch::zeros({2})}})->restore(state).error();
  };
  auto state = good->save();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[0].name, "steps");
  EXPECT_EQ(state[1].name, "first.w");
  EXPECT_EQ(state[2].name, "second.w");
  auto other = state;
  other[1].name = "first.v";
  EXPECT_THAT(refusal(other).context, HasSubstr("no moments of 'w' that fit it"));
  other = state;
  other[2].tensor = torch::zeros({3});
  EXPECT_THAT(refusal(other).context, HasSubstr("no moments of 'w' that fit it"));
  other = state;
  other[0].tensor = torch::zeros({1}, at::kLong);
  EXPECT_THAT(refusal(other).context, HasSubstr("no number of steps"));
  other = state;
  other.push_back({"first.x", torch::zeros({2})});
  EXPECT_THAT(refusal(other).context, HasSubstr("of other parameters"));
  EXPECT_EQ(refusal(other).code, Errc::malformed);
}

TEST(Optimizers, SayWhetherTheyYieldTheirMomentum) {
  for (const auto& entry : optimizers().describe()) {
    EXPECT_EQ(entry.at("yields_momentum"), entry.at("name") == "sgd") << entry.at("name");
    EXPECT_TRUE(entry.at("params").at("properties").contains("no_decay")) << entry.at("name");
  }
}

}  // namespace
}  // namespace weir::training
