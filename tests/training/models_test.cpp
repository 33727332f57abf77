#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "training/models/catalog.hpp"
#include "training/models/list.hpp"
#include "training/random_state.hpp"
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

// Some versions of oneDNN are wrong where the channels are no whole number of blocks (convolutions.hpp).
TEST(LeNet, HasConvolutionsThatAreRight) {
  ASSERT_TRUE(make_model("lenet", nullptr, fashion, 1));
  const auto random = at::detail::createCPUGenerator(3);
  for (const std::int64_t channels : {1, 16, 20, 24, 50}) {
    const auto image = torch::randn({4, channels, 12, 12}, random).set_requires_grad(true);
    const auto weight = torch::randn({50, channels, 5, 5}, random).set_requires_grad(true);
    const auto columns = at::im2col(image, {5, 5}, {1, 1}, {0, 0}, {1, 1});
    const auto expected = weight.flatten(1).matmul(columns).view({4, 50, 8, 8});
    const auto found = torch::conv2d(image, weight);
    EXPECT_TRUE(found.allclose(expected, 1e-3, 1e-3)) << channels;
    const auto gradients = torch::autograd::grad({found.square().sum()}, {image, weight});
    const auto wanted = torch::autograd::grad({expected.square().sum()}, {image, weight});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double scale = wanted[i].abs().max().item<double>();
      EXPECT_TRUE(gradients[i].allclose(wanted[i], 1e-3, 1e-3 * scale)) << channels << ", gradient " << i;
    }
  }
}

TEST(CifarResNet, HasTheParametersOfThePaper) {
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

TEST(CifarResNet, TakesImagesOfAnyShapeFromEightPixelsOn) {
  for (const ExampleShape& shape : {fashion, ExampleShape{3, 32, 32, 7}, ExampleShape{2, 8, 11, 3}}) {
    const auto model = make_model("resnet20", {{"depth", 8}, {"width", 4}}, shape, 1).value();
    const auto output = model->forward(torch::zeros({1, shape.channels, shape.height, shape.width}));
    EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{1, shape.classes}));
  }
}

TEST(CifarResNet, KeepsRunningStatisticsInTrainingAndUsesThemInUse) {
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

/// A model with given parameters, and examples that it takes.
struct Sample {
  std::string model;
  nlohmann::json params;
  ExampleShape shape;
};

/// The smallest images that the model takes, of equal sides; or short texts.
ExampleShape smallest(const std::string& model, const nlohmann::json& params) {
  for (std::int64_t side = 1; side < 400; ++side) {
    const ExampleShape images{2, side, side, 5};
    if (parameter_shapes(model, params, images)) return images;
  }
  return {1, 1, 1, 11, 6};
}

/// Every model that is a network, and every form that it has, each on the smallest examples.
std::vector<Sample> samples() {
  const nlohmann::json small = {{"small_images", true}};
  const std::vector<std::pair<std::string, nlohmann::json>> more = {
      {"lenet", {{"variant", "lecun"}}},
      {"mlp", {{"widths", {7, 5}}}},
      {"resnet20", {{"depth", 14}}},
      {"resnet", {{"version", 2}}},
      {"resnet", {{"depth", 50}, {"small_images", true}}},
      {"vgg", {{"depth", 11}, {"batch_norm", true}, {"small_images", true}}},
      {"alexnet", small},
      {"mobilenet", {{"version", 1}, {"width", 0.25}, {"small_images", true}}},
      {"mobilenet", {{"version", 2}, {"width", 0.5}, {"small_images", true}}},
      {"inception_v3", small},
      {"char_lstm", {{"embedding", 4}, {"hidden", 12}, {"layers", 3}}},
      {"gpt", {{"layers", 2}, {"width", 32}, {"heads", 2}, {"tied_head", false}, {"context", 9}}},
  };
  std::vector<Sample> all;
  NetworkTypes::for_each([&]<class M>() {
    const std::string name(M::type_name);
    // With all its options' defaults, VGG has 33 million parameters on the smallest images.
    const nlohmann::json params = name == "vgg" ? nlohmann::json{{"depth", 11}, {"small_images", true}} : nullptr;
    all.push_back({name, params, smallest(name, params)});
  });
  for (const auto& [model, params] : more) all.push_back({model, params, smallest(model, params)});
  return all;
}

/// Random examples and classes, always the same ones.
std::pair<at::Tensor, at::Tensor> batch_of(const ExampleShape& shape, std::int64_t count) {
  torch::manual_seed(5);
  if (shape.tokens > 0) {
    const auto text = torch::randint(shape.classes, {count, shape.tokens + 1}, torch::kLong);
    return {text.slice(1, 0, shape.tokens), text.slice(1, 1)};
  }
  return {torch::randn({count, shape.channels, shape.height, shape.width}),
          torch::arange(count).remainder(shape.classes)};
}

std::string described(const Sample& sample) { return sample.model + " " + sample.params.dump(); }

TEST(Models, HaveTheShapesThatTheirNetworksState) {
  for (const auto& sample : samples()) {
    const auto model = make_model(sample.model, sample.params, sample.shape, 1).value();
    std::vector<protocol::ParameterShape> real;
    for (const auto& [name, tensor] : model->parameters()) real.push_back({name, tensor.sizes().vec()});
    EXPECT_EQ(real, parameter_shapes(sample.model, sample.params, sample.shape).value()) << described(sample);
  }
  EXPECT_EQ(parameter_shapes("lenett", {}, fashion).error().code, Errc::not_found);
}

TEST(Models, RunOnTheSmallestExamplesThatTheyTake) {
  for (const auto& sample : samples()) {
    const auto model = make_model(sample.model, sample.params, sample.shape, 1).value();
    const auto [input, classes] = batch_of(sample.shape, 1);
    std::vector<std::int64_t> sizes = {1, sample.shape.classes};
    if (sample.shape.tokens > 0) sizes.push_back(sample.shape.tokens);
    for (const bool training : {true, false}) {
      model->set_training(training);
      const auto logits = model->forward(input);
      EXPECT_EQ(logits.sizes(), sizes) << described(sample);
      EXPECT_TRUE(logits.isfinite().all().item<bool>()) << described(sample);
    }
    EXPECT_EQ(at::cross_entropy_loss(model->forward(input), classes).dim(), 0) << described(sample);
  }
}

/// The network that ends with this layer.
Network up_to(Network network, std::size_t layer) {
  network.layers.resize(layer + 1);
  network.output = layer;
  std::size_t parameters = 0;
  for (const auto& each : network.layers) {
    for (const auto parameter : each.parameters) parameters = std::max(parameters, parameter + 1);
  }
  network.parameters.resize(parameters);
  return network;
}

/// Each layer's output has the extents that the network states, also where windows are rounded.
TEST(Models, ComputeWhatTheirNetworksState) {
  for (const auto& sample : samples()) {
    auto shape = sample.shape;
    if (shape.tokens == 0) {
      shape.height += 3;
      shape.width += 6;
    }
    const auto model = make_model(sample.model, sample.params, shape, 1).value();
    const auto& network = dynamic_cast<const GraphModel&>(*model).network();
    const at::NoGradGuard no_grad;
    const auto input = batch_of(shape, 2).first;
    for (std::size_t i = 0; i < network.layers.size(); i += 1 + network.layers.size() / 8) {
      const auto output = GraphModel(up_to(network, i), at::detail::createCPUGenerator(1)).forward(input);
      auto sizes = network.layers[i].extents;
      sizes.insert(sizes.begin(), 2);
      EXPECT_EQ(output.sizes(), sizes) << described(sample) << " layer " << i;
    }
  }
}

TEST(Models, LowerTheLossWithAStepDownTheGradient) {
  for (const auto& sample : samples()) {
    const auto model = make_model(sample.model, sample.params, sample.shape, 1).value();
    const auto [input, classes] = batch_of(sample.shape, 8);
    const auto loss = [&, input = input, classes = classes] {
      torch::manual_seed(6);  // the same dropout each time
      return at::cross_entropy_loss(model->forward(input), classes);
    };
    const auto first = loss();
    first.backward();
    const at::NoGradGuard no_grad;
    double norm = 0;  // squared
    for (const auto& [name, tensor] : model->parameters()) {
      ASSERT_TRUE(tensor.grad().defined()) << described(sample) << " " << name;
      norm += tensor.grad().square().sum().item<double>();
    }
    // So short a step that the loss falls as the gradient says.
    const double before = first.item<double>();
    const double fall = 0.01 * before;
    for (const auto& [name, tensor] : model->parameters()) tensor.sub_(tensor.grad(), fall / norm);
    EXPECT_NEAR(before - loss().item<double>(), fall, fall / 2) << described(sample);
  }
}

/// On a GPU the channels of a pixel lie side by side (GraphModel::forward). Gradients are to lie as the parameters do.
TEST(Models, TakeImagesInAnyOrderOfTheirMemory) {
  for (const auto& sample : samples()) {
    if (sample.shape.tokens > 0) continue;
    const auto model = make_model(sample.model, sample.params, sample.shape, 1).value();
    model->set_training(false);
    const auto [input, classes] = batch_of(sample.shape, 4);
    const auto gradients_for = [&, classes = classes](const at::Tensor& images) {
      at::cross_entropy_loss(model->forward(images), classes).backward();
      std::vector<at::Tensor> gradients;
      for (const auto& [name, tensor] : model->parameters()) {
        gradients.push_back(tensor.grad());
        EXPECT_TRUE(tensor.grad().is_contiguous()) << described(sample) << " " << name;
        at::Tensor(tensor).mutable_grad().reset();
      }
      return gradients;
    };
    const auto usual = gradients_for(input);
    const auto turned = gradients_for(input.contiguous(at::MemoryFormat::ChannelsLast));
    for (std::size_t i = 0; i < usual.size(); ++i) {
      const double scale = usual[i].abs().max().item<double>();
      EXPECT_TRUE(usual[i].allclose(turned[i], 0, 1e-3 * scale)) << described(sample) << " " << i;
    }
  }
}

TEST(Models, AreMadeWithoutDrawingFromTheGeneratorOfATraining) {
  const auto before = random_state(at::kCPU);
  make_model("alexnet", {{"small_images", true}}, {3, 32, 32, 10}, 1).value();
  EXPECT_TRUE(random_state(at::kCPU).equal(before));
}

TEST(Models, DropoutIsAnotherOnEachRankAndTheSameAgain) {
  const auto drawn = [](std::uint64_t seed, std::uint32_t rank) {
    seed_random_state(seed, rank);
    return torch::dropout(torch::ones({1000}), 0.5, /*train=*/true);
  };
  const auto first = drawn(1, 0);
  EXPECT_TRUE(first.equal(drawn(1, 0)));
  EXPECT_FALSE(first.equal(drawn(1, 1)));
  EXPECT_FALSE(first.equal(drawn(2, 0)));
}

TEST(Models, TheSeedDecidesTheParameters) {
  for (const auto& sample : samples()) {
    const auto made = [&](std::uint64_t seed) {
      return make_model(sample.model, sample.params, sample.shape, seed).value();
    };
    const auto one = made(7);
    const auto same = made(7);
    const auto other = made(8);
    const auto& network = dynamic_cast<const GraphModel&>(*one).network();
    for (std::size_t i = 0; i < network.parameters.size(); ++i) {
      const auto [name, tensor] = one->parameters()[i];
      EXPECT_TRUE(tensor.equal(same->parameters()[i].tensor)) << described(sample) << " " << name;
      const bool drawn = network.parameters[i].fills.back().kind != Fill::Kind::constant;
      EXPECT_EQ(is_constant(tensor), !drawn) << described(sample) << " " << name;
      EXPECT_EQ(tensor.equal(other->parameters()[i].tensor), !drawn) << described(sample) << " " << name;
    }
  }
}

/// Trainings that somebody has recorded can be repeated: these are the values that LibTorch's own modules drew. Other
/// versions of LibTorch may round the last digits differently.
TEST(Models, ASeedGivesWhatItHasAlwaysGiven) {
  const auto expect = [](const char* name, const nlohmann::json& params, const std::string& tensor, double first,
                         double last) {
    const auto model = make_model(name, params, fashion, 1).value();
    for (const auto& parameter : model->parameters()) {
      if (parameter.name != tensor) continue;
      const auto values = parameter.tensor.flatten();
      EXPECT_NEAR(values[0].item<float>(), first, 1e-6) << name << " " << tensor;
      EXPECT_NEAR(values[-1].item<float>(), last, 1e-6) << name << " " << tensor;
      return;
    }
    ADD_FAILURE() << name << " has no " << tensor;
  };
  expect("lenet", nullptr, "conv1.weight", 0.103052638, 0.0749659091);
  expect("lenet", nullptr, "fc2.weight", 0.0377041362, -0.0260598194);
  expect("mlp", nullptr, "fc1.weight", 0.0184022579, -0.0109875249);
  expect("mlp", nullptr, "fc2.weight", -0.0887988359, -0.0912924707);
  expect("resnet20", {{"depth", 8}}, "conv.weight", -0.642650306, -0.272887468);
  expect("resnet20", {{"depth", 8}}, "blocks.2.conv2.weight", -0.11050652, 0.0533952266);
  expect("resnet20", {{"depth", 8}}, "fc.weight", -0.0236800164, 0.0793267041);
}

/// What attention computes, token by token.
TEST(Gpt, TokensSeeThemselvesAndThoseBefore) {
  const ExampleShape shape{1, 1, 1, 11, 6};
  const auto model = make_model("gpt", {{"width", 32}}, shape, 1).value();
  model->set_training(false);
  const auto [input, classes] = batch_of(shape, 2);
  const auto logits = model->forward(input);
  auto changed = input.clone();
  changed.select(1, 3).add_(1).remainder_(shape.classes);
  const auto difference = (model->forward(changed) - logits).abs().amax({0, 1});
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    EXPECT_EQ(difference[token].item<float>() > 1e-6, token >= 3) << token;
  }
  EXPECT_LT((model->forward(input.slice(1, 0, 4)) - logits.slice(2, 0, 4)).abs().max().item<float>(), 1e-5)
      << "a shorter text";
}

TEST(Gpt, ATiedHeadIsTheEmbedding) {
  const ExampleShape shape{1, 1, 1, 11, 6};
  const auto count = [&](bool tied) {
    return parameters_of(*make_model("gpt", {{"tied_head", tied}}, shape, 1).value());
  };
  EXPECT_EQ(count(false) - count(true), 11 * 128);
  const auto model = make_model("gpt", nullptr, shape, 1).value();
  const at::NoGradGuard no_grad;
  const auto table = model->parameters().front();
  ASSERT_EQ(table.name, "tokens.weight");
  table.tensor[4].zero_();
  EXPECT_EQ(model->forward(batch_of(shape, 1).first).select(1, 4).abs().max().item<float>(), 0.0f);
}

/// LibTorch's module of the same layers gives the same, from the same tensors.
TEST(CharLstm, ComputesWhatTheModuleDoes) {
  const ExampleShape shape{1, 1, 1, 11, 6};
  const auto model = make_model("char_lstm", {{"hidden", 12}}, shape, 1).value();
  const auto parameters = model->parameters();
  torch::nn::LSTM module(torch::nn::LSTMOptions(8, 12).num_layers(2).batch_first(true));
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters) {
    if (name.starts_with("lstm.")) module->named_parameters()[name.substr(5)].copy_(tensor);
  }
  const auto input = batch_of(shape, 3).first;
  const auto features = std::get<0>(module->forward(at::embedding(parameters.front().tensor, input)));
  const auto logits = at::linear(features, parameters[parameters.size() - 2].tensor, parameters.back().tensor);
  EXPECT_LT((model->forward(input) - logits.transpose(1, 2)).abs().max().item<float>(), 1e-6);
}

TEST(Models, RefuseWhatTheyCannotTake) {
  EXPECT_EQ(make_model("lenet", nullptr, {1, 8, 8, 10}, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("mlp", {{"hidden", 0}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("mlp", {{"widths", {4, 0}}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("mlp", {{"widths", std::vector<int>(65, 1)}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("resnet20", nullptr, {1, 7, 28, 10}, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("resnet20", {{"depth", 18}}, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("gpt", nullptr, fashion, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(make_model("vgg", nullptr, {1, 1, 1, 11, 6}, 1).error().code, Errc::invalid_argument);
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
