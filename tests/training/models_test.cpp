#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/errc.hpp"
#include "protocol/schema.hpp"
#include "training/models/catalog.hpp"
#include "training/schedules/schedule.hpp"
#include "training/shapes.hpp"

namespace weir::training {
namespace {

constexpr ExampleShape fashion{1, 28, 28, 10};

std::int64_t parameters_of(const Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.tensor.numel();
  return count;
}

bool is_constant(const at::Tensor& tensor) { return tensor.min().equal(tensor.max()); }

TEST(LeNet, HasTheParametersOfThePapers) {
  const auto model = make_model("lenet", nullptr, fashion, 1).value();
  EXPECT_EQ(parameters_of(*model), 431'080);
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(), (std::vector<std::int64_t>{2, 10}));
}

TEST(ResNet, HasTheParametersOfThePaper) {
  constexpr ExampleShape cifar{3, 32, 32, 10};
  const auto count = [](const nlohmann::json& params, const ExampleShape& shape) {
    return parameters_of(*make_model("resnet20", params, shape, 1).value());
  };
  // The paper's table 6 says 0.27, 0.46 and 1.7 million.
  EXPECT_EQ(count(nullptr, cifar), 269'722);
  EXPECT_EQ(count({{"depth", 32}}, cifar), 464'154);
  EXPECT_EQ(count({{"depth", 110}}, cifar), 1'727'962);
  EXPECT_EQ(count(nullptr, fashion), 269'434);
  EXPECT_LT(count({{"depth", 8}, {"width", 8}}, fashion), 20'000);
}

TEST(ResNet, TakesImagesOfAnyShapeFromEightPixelsOn) {
  for (const ExampleShape& shape : {fashion, ExampleShape{3, 32, 32, 7}, ExampleShape{2, 8, 11, 3}}) {
    const auto model = make_model("resnet20", {{"depth", 8}, {"width", 4}}, shape, 1).value();
    const auto output = model->forward(torch::zeros({1, shape.channels, shape.height, shape.width}));
    EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{1, shape.classes}));
  }
}

TEST(ResNet, KeepsRunningStatisticsInTrainingAndUsesThemInUse) {
  const auto model = make_model("resnet20", {{"depth", 8}, {"width", 4}}, fashion, 1).value();
  // Mean, variance and number of batches of 1 + 3 * 2 normalisations.
  ASSERT_EQ(model->buffers().size(), 3u * 7);
  EXPECT_EQ(state_of(*model).size(), model->parameters().size() + model->buffers().size());
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> before;
  for (const auto& [name, tensor] : model->buffers()) before[name] = tensor.clone();
  const auto images = 3 + 2 * torch::randn({16, 1, 28, 28});

  model->set_training(false);
  const auto untrained = model->forward(images);
  for (const auto& [name, tensor] : model->buffers()) EXPECT_TRUE(tensor.equal(before[name])) << name;
  model->set_training(true);
  const auto in_training = model->forward(images);
  for (const auto& [name, tensor] : model->buffers()) EXPECT_FALSE(tensor.equal(before[name])) << name;
  model->set_training(false);
  EXPECT_FALSE(model->forward(images).equal(untrained));
  // Running statistics near those of the batch give what the batch gave.
  model->set_training(true);
  for (int i = 0; i < 100; ++i) model->forward(images);
  model->set_training(false);
  EXPECT_LT((model->forward(images) - in_training).abs().max().item<float>(), 0.2f);
}

TEST(ResNet, AStepDownTheGradientLowersTheLoss) {
  const auto model = make_model("resnet20", {{"depth", 14}}, {1, 12, 12, 4}, 1).value();
  torch::manual_seed(5);
  const auto images = torch::randn({32, 1, 12, 12});
  const auto classes = torch::arange(32).remainder(4);
  const auto loss = [&] { return at::cross_entropy_loss(model->forward(images), classes); };
  const auto first = loss();
  first.backward();
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model->parameters()) {
      ASSERT_TRUE(tensor.grad().defined()) << name;
      EXPECT_GT(tensor.grad().abs().max().item<float>(), 0.0f) << name;
      tensor.sub_(tensor.grad(), 0.01);
    }
  }
  EXPECT_LT(loss().item<float>(), first.item<float>());
}

TEST(Models, TheSeedDecidesTheParameters) {
  for (const auto& entry : models().entries()) {
    const auto one = make_model(entry.name, nullptr, fashion, 7).value();
    const auto same = make_model(entry.name, nullptr, fashion, 7).value();
    const auto other = make_model(entry.name, nullptr, fashion, 8).value();
    const auto parameters = one->parameters();
    const auto same_parameters = same->parameters();
    const auto other_parameters = other->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, tensor] = parameters[i];
      EXPECT_TRUE(tensor.equal(same_parameters[i].tensor)) << entry.name << " " << name;
      const bool drawn = name.find("norm") == std::string::npos;  // normalisation begins with ones and zeros
      EXPECT_EQ(is_constant(tensor), !drawn) << entry.name << " " << name;
      EXPECT_EQ(tensor.equal(other_parameters[i].tensor), !drawn) << entry.name << " " << name;
    }
  }
}

/// Several sets of complete parameters for a schema: the defaults, and for each parameter its ends and what lies
/// between, as far as the network stays small.
std::vector<nlohmann::json> parameter_sets(const nlohmann::json& schema) {
  auto defaults = nlohmann::json::object();
  EXPECT_TRUE(protocol::check_and_complete(schema, defaults).empty());
  std::vector<nlohmann::json> sets = {defaults};
  for (const auto& [name, property] : schema.at("properties").items()) {
    std::vector<nlohmann::json> values;
    if (property.contains("enum")) {
      values = property.at("enum").get<std::vector<nlohmann::json>>();
    } else if (property.at("type") == "integer") {
      const auto least = property.at("minimum").get<std::int64_t>();
      const auto most = std::min<std::int64_t>(property.at("maximum").get<std::int64_t>(), least + 40);
      for (std::int64_t value = least; value <= most; value += 13) values.emplace_back(value);
    } else {
      ADD_FAILURE() << "say which values of " << name << " are tested";
    }
    for (const auto& value : values) {
      sets.push_back(defaults);
      sets.back()[name] = value;
    }
  }
  return sets;
}

TEST(Models, StateTheShapesOfTheirParametersWithoutLibTorch) {
  const std::vector<ExampleShape> shapes = {fashion, {3, 32, 32, 7}, {2, 8, 11, 3}, {1, 16, 19, 2}, {4, 40, 16, 100}};
  for (const auto& entry : models().entries()) {
    std::size_t compared = 0;
    for (const auto& params : parameter_sets(entry.schema())) {
      for (const auto& shape : shapes) {
        const auto stated = parameter_shapes(entry.name, params, shape);
        const auto model = make_model(entry.name, params, shape, 1);
        ASSERT_EQ(stated.has_value(), model.has_value()) << entry.name << " " << params;
        if (!model) {
          EXPECT_EQ(stated.error().code, Errc::invalid_argument);
          continue;
        }
        std::vector<protocol::ParameterShape> real;
        for (const auto& [name, tensor] : (*model)->parameters()) real.push_back({name, tensor.sizes().vec()});
        ASSERT_EQ(*stated, real) << entry.name << " " << params << " on " << shape.height << " x " << shape.width;
        ++compared;
      }
    }
    EXPECT_GE(compared, 4u) << entry.name;
  }
  EXPECT_EQ(parameter_shapes("lenett", {}, fashion).error().code, Errc::not_found);
}

TEST(Models, RefuseWhatTheyCannotTake) {
  EXPECT_EQ(make_model("lenet", nullptr, {1, 8, 8, 10}, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("mlp", {{"hidden", 0}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("resnet20", nullptr, {1, 7, 28, 10}, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("resnet20", {{"depth", 18}}, fashion, 1).error().code, Errc::invalid_argument);
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
}  // namespace weir::training
