#include <gtest/gtest.h>
#include <torch/types.h>

#include "actors/models/catalog.hpp"
#include "actors/schedules/schedule.hpp"

namespace weir::actors {
namespace {

constexpr ExampleShape fashion{1, 28, 28, 10};

TEST(LeNet, HasTheParametersOfThePapers) {
  const auto model = make_model("lenet", nullptr, fashion, 1).value();
  std::int64_t count = 0;
  for (const auto& parameter : model->parameters()) count += parameter.tensor.numel();
  EXPECT_EQ(count, 431'080);
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(), (std::vector<std::int64_t>{2, 10}));
}

TEST(Models, TheSeedDecidesTheParameters) {
  for (const auto& entry : models().entries()) {
    const auto one = make_model(entry.name, nullptr, fashion, 7).value();
    const auto same = make_model(entry.name, nullptr, fashion, 7).value();
    const auto other = make_model(entry.name, nullptr, fashion, 8).value();
    for (std::size_t i = 0; i < one->parameters().size(); ++i) {
      EXPECT_TRUE(one->parameters()[i].tensor.equal(same->parameters()[i].tensor)) << entry.name;
      EXPECT_FALSE(one->parameters()[i].tensor.equal(other->parameters()[i].tensor)) << entry.name;
    }
  }
}

TEST(Models, RefuseWhatTheyCannotTake) {
  EXPECT_EQ(make_model("lenet", nullptr, {1, 8, 8, 10}, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("mlp", {{"hidden", 0}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("lenett", nullptr, fashion, 1).error().code, Errc::not_found);
}

TEST(Schedules, FollowTheirFormulas) {
  const ScheduleSetting setting{.steps_per_epoch = 10, .steps_total = 100};
  const auto constant = schedules().make("constant", nullptr, setting).value();
  EXPECT_EQ(constant->factor(99), 1.0);
  const auto step = schedules().make("step", {{"epochs", 2}, {"gamma", 0.5}}, setting).value();
  EXPECT_EQ(step->factor(19), 1.0);
  EXPECT_EQ(step->factor(20), 0.5);
  EXPECT_EQ(step->factor(40), 0.25);
  const auto cosine = schedules().make("cosine", {{"warmup_epochs", 1}}, setting).value();
  EXPECT_LT(cosine->factor(0), cosine->factor(9));
  EXPECT_DOUBLE_EQ(cosine->factor(10), 1.0);
  EXPECT_NEAR(cosine->factor(55), 0.5, 1e-12);
  EXPECT_NEAR(cosine->factor(100), 0.0, 1e-12);
  const auto warmup = schedules().make("warmup", {{"epochs", 1}}, setting).value();
  EXPECT_NEAR(warmup->factor(0), 1.0 / 11, 1e-12);
  EXPECT_EQ(warmup->factor(10), 1.0);
}

}  // namespace
}  // namespace weir::actors
