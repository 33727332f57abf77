#include "training/optimizers/sgd.hpp"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/errc.hpp"
#include "compressors/catalog.hpp"
#include "optimizer_case.hpp"

namespace weir::training {
namespace {

using testing::step;

struct Case {
  const char* name;
  double momentum;
  bool nesterov;
  double weight_decay;
  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

class SgdCase : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Sgd, SgdCase,
                         ::testing::Values(Case{"plain", 0, false, 0}, Case{"decay", 0, false, 1e-2},
                                           Case{"momentum", 0.9, false, 0}, Case{"momentum_decay", 0.9, false, 1e-2},
                                           Case{"nesterov", 0.9, true, 0}, Case{"nesterov_decay", 0.9, true, 1e-2}),
                         [](const auto& info) { return std::string(info.param.name); });

std::unique_ptr<Optimizer> make(const Case& c, const std::vector<NamedTensor>& parameters,
                                MomentumOwner owner = MomentumOwner::optimizer) {
  const nlohmann::json params{{"momentum", c.momentum}, {"nesterov", c.nesterov}, {"weight_decay", c.weight_decay}};
  return optimizers().make("sgd", params, OptimizerSetting{parameters, owner}).value();
}

TEST_P(SgdCase, IsBitForBitThatOfTorch) {
  torch::manual_seed(1);
  const auto& c = GetParam();
  const auto start = torch::randn({17, 3});
  auto reference = start.clone().set_requires_grad(true);
  auto mine = start.clone().set_requires_grad(true);
  const auto options =
      torch::optim::SGDOptions(0.1).momentum(c.momentum).nesterov(c.nesterov).weight_decay(c.weight_decay);
  torch::optim::SGD torch_sgd({reference}, options);
  const auto sgd = make(c, {{"w", mine}});
  for (int i = 0; i < 5; ++i) {
    const auto gradient = torch::randn({17, 3});
    reference.mutable_grad() = gradient.clone();
    torch_sgd.step();
    step(*sgd, gradient, 0.1);
    EXPECT_TRUE(mine.equal(reference)) << "step " << i;
  }
}

TEST_P(SgdCase, GroupsAreThoseOfTorch) {
  torch::manual_seed(1);
  const auto& c = GetParam();
  const std::vector<at::Tensor> start{torch::randn({17, 3}), torch::randn({17}), torch::randn({5})};
  std::vector<at::Tensor> reference;
  std::vector<at::Tensor> mine;
  for (const auto& tensor : start) {
    reference.push_back(tensor.clone().set_requires_grad(true));
    mine.push_back(tensor.clone().set_requires_grad(true));
  }
  const auto options = [&](double rate, double decay) {
    return std::make_unique<torch::optim::SGDOptions>(
        torch::optim::SGDOptions(rate).momentum(c.momentum).nesterov(c.nesterov).weight_decay(decay));
  };
  torch::optim::SGD torch_sgd({torch::optim::OptimizerParamGroup({reference[0]}, options(0.1, c.weight_decay)),
                               torch::optim::OptimizerParamGroup({reference[1]}, options(0.05, 0)),
                               torch::optim::OptimizerParamGroup({reference[2]}, options(0, c.weight_decay))},
                              torch::optim::SGDOptions(0.1));
  const nlohmann::json params{{"momentum", c.momentum},
                              {"nesterov", c.nesterov},
                              {"weight_decay", c.weight_decay},
                              {"groups",
                               {{{"parameters", "one.b*"}, {"lr_scale", 0.5}, {"weight_decay", 0}},
                                {{"parameters", "two.*"}, {"lr_scale", 0}},
                                {{"parameters", "*"}}}}};
  const OptimizerSetting setting{{{"one.weight", mine[0]}, {"one.bias", mine[1]}, {"two.bias", mine[2]}}};
  const auto sgd = optimizers().make("sgd", params, setting).value();
  for (int i = 0; i < 5; ++i) {
    std::vector<Mean> means;
    for (std::size_t p = 0; p < start.size(); ++p) {
      const auto gradient = torch::randn(start[p].sizes());
      reference[p].mutable_grad() = gradient.clone();
      means.push_back({.tensor = gradient, .sparse = false, .positions = {}});
    }
    torch_sgd.step();
    sgd->step(means, 0.1);
    for (std::size_t p = 0; p < start.size(); ++p) EXPECT_TRUE(mine[p].equal(reference[p])) << i << ", " << p;
  }
  EXPECT_TRUE(mine[2].equal(start[2]));
}

TEST_P(SgdCase, ContinuesFromSavedState) {
  torch::manual_seed(2);
  const auto one = torch::randn({5});
  const auto first = make(GetParam(), {{"w", one}});
  step(*first, torch::randn({5}), 0.1);
  const auto two = one.clone();
  const auto second = make(GetParam(), {{"w", two}});
  ASSERT_TRUE(second->restore(first->save()));
  const auto gradient = torch::randn({5});
  step(*first, gradient.clone(), 0.1);
  step(*second, gradient.clone(), 0.1);
  EXPECT_TRUE(one.equal(two));
}

TEST_P(SgdCase, GivesTheSameForASparseMean) {
  torch::manual_seed(3);
  for (const auto owner : {MomentumOwner::optimizer, MomentumOwner::memory, MomentumOwner::method}) {
    const auto expected = torch::randn({4, 5});
    const auto parameter = expected.clone();
    const auto of_dense = make(GetParam(), {{"w", expected}}, owner);
    const auto of_sparse = make(GetParam(), {{"w", parameter}}, owner);
    for (int i = 0; i < 3; ++i) {
      const auto mean = torch::zeros({4, 5});
      // A position that two ranks have sent, and one at which their values cancel out.
      const std::vector<std::uint32_t> positions{3, 17, 0, 17, 9};
      for (const auto position : {3, 17, 0}) mean.view(-1)[position] = torch::randn({}).item<float>();
      step(*of_dense, mean.clone(), 0.1);
      std::vector<Mean> means{{.tensor = mean, .sparse = true, .positions = positions}};
      of_sparse->step(means, 0.1);
      EXPECT_TRUE(!means[0].positions.empty() || mean.count_nonzero().item<std::int64_t>() == 0) << "used up in part";
    }
    EXPECT_TRUE(parameter.allclose(expected, 1e-6, 1e-7)) << static_cast<int>(owner);
  }
}

TEST(Sgd, MomentumThatIsInTheGradientsIsNotAppliedAgain) {
  for (const auto owner : {MomentumOwner::memory, MomentumOwner::method}) {
    const auto parameter = torch::zeros({1});
    const auto sgd = make({"once", 0.9, false, 0}, {{"w", parameter}}, owner);
    for (int i = 0; i < 3; ++i) step(*sgd, torch::ones({1}), 0.5);
    EXPECT_EQ(parameter.item<float>(), -1.5f);
  }
}

TEST(Sgd, WeightDecayKeepsTheMomentumThatAMemoryHasTaken) {
  const auto gradient = torch::ones({1});
  const auto parameter = torch::full({1}, 2.0f);
  const auto sgd = make({"once", 0.5, false, 0.5}, {{"w", parameter}}, MomentumOwner::memory);
  step(*sgd, gradient, 0.5);  // d = 1, m = 1, x = 2 - 0.5 (1 + 1)
  EXPECT_EQ(parameter.item<float>(), 1.0f);
  step(*sgd, gradient, 0.5);  // d = 0.5, m = 1, x = 1 - 0.5 (1 + 1)
  EXPECT_EQ(parameter.item<float>(), 0.0f);
  const auto other = torch::full({1}, 2.0f);
  const auto nesterov = make({"once", 0.5, true, 0.5}, {{"w", other}}, MomentumOwner::memory);
  step(*nesterov, gradient, 0.5);  // d = 1, m = 1, x = 2 - 0.5 (1 + 1 + 0.5)
  EXPECT_EQ(other.item<float>(), 0.75f);
}

TEST(Sgd, WeightDecayIsDecoupledFromTheMomentumOfACompressor) {
  const auto gradient = torch::ones({1});
  for (const bool nesterov : {false, true}) {
    const auto parameter = torch::full({1}, 4.0f);
    const auto sgd = make({"once", 0.5, nesterov, 0.5}, {{"w", parameter}}, MomentumOwner::method);
    step(*sgd, gradient, 0.5);  // 0.75 * 4 - 0.5
    EXPECT_EQ(parameter.item<float>(), 2.5f);
    step(*sgd, gradient, 0.5);  // 0.75 * 2.5 - 0.5
    EXPECT_EQ(parameter.item<float>(), 1.375f);
    EXPECT_TRUE(sgd->save().empty());
  }
}

TEST(Sgd, TheOwnerOfMomentumIsAskedOfCompressorAndMemory) {
  const auto owner = [](const char* compressor, const char* memory, const nlohmann::json& memory_params = nullptr) {
    const nlohmann::json none;
    const auto made = compressors::builtin()
                          .make({.compressor = compressor,
                                 .params = none,
                                 .memory = memory,
                                 .memory_params = memory_params,
                                 .setting = {}})
                          .value();
    return momentum_owner(made.compressor->traits(), made.memory->traits());
  };
  EXPECT_EQ(owner("topk", "residual"), MomentumOwner::optimizer);
  EXPECT_EQ(owner("signsgd", "none"), MomentumOwner::optimizer);
  EXPECT_EQ(owner("dgc", "dgc"), MomentumOwner::memory);
  EXPECT_EQ(owner("signum", "none"), MomentumOwner::method);
  EXPECT_EQ(owner("demo", ""), MomentumOwner::method);
}

/// The model's word counts, whatever the extents: here a matrix is spared and a vector is not.
TEST(Sgd, NoDecaySparesWhatTheModelDeclares) {
  for (const auto owner : {MomentumOwner::optimizer, MomentumOwner::memory, MomentumOwner::method}) {
    const auto spared = torch::ones({2, 2});
    const auto decayed = torch::ones({2});
    const nlohmann::json params{{"momentum", 0.5}, {"weight_decay", 0.5}, {"no_decay", true}};
    const OptimizerSetting setting{{{"w", spared}, {"b", decayed}}, owner, {false, true}};
    const auto sgd = optimizers().make("sgd", params, setting).value();
    std::vector<Mean> means{{.tensor = torch::zeros({2, 2}), .sparse = false, .positions = {}},
                            {.tensor = torch::zeros({2}), .sparse = false, .positions = {}}};
    sgd->step(means, 0.1);
    EXPECT_TRUE(spared.equal(torch::ones({2, 2})));
    EXPECT_TRUE(decayed.allclose(torch::full({2}, 0.95f)));
  }
}

TEST(Sgd, RefusesStateOfAnotherModel) {
  const auto sgd = make({"once", 0.9, false, 0}, {{"w", torch::zeros({2})}});
  EXPECT_EQ(sgd->restore(std::vector{NamedTensor{"momentum.v", torch::zeros({2})}}).error().code, Errc::malformed);
  EXPECT_EQ(sgd->restore(std::vector{NamedTensor{"momentum.w", torch::zeros({3})}}).error().code, Errc::malformed);
}

TEST(Sgd, NesterovNeedsMomentum) {
  const auto made = optimizers().make("sgd", {{"nesterov", true}, {"momentum", 0}}, OptimizerSetting{});
  EXPECT_EQ(made.error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace weir::training
