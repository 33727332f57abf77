#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "training/models/list.hpp"
#include "training/models/network_builder.hpp"
#include "training/shapes.hpp"

/// Networks as data: nothing here links LibTorch, and nothing is allocated for the parameters.
namespace weir::training {
namespace {

constexpr ExampleShape imagenet{3, 224, 224, 1000};
constexpr ExampleShape cifar{3, 32, 32, 10};
constexpr ExampleShape fashion{1, 28, 28, 10};

constexpr ExampleShape text(std::int64_t tokens, std::int64_t classes) { return {1, 1, 1, classes, tokens}; }

struct Known {
  std::string model;
  nlohmann::json params;
  ExampleShape shape;
  std::int64_t parameters;
};

std::int64_t count_of(const Known& known) {
  std::int64_t count = 0;
  for (const auto& shape : parameter_shapes(known.model, known.params, known.shape).value()) {
    count += entries_of(shape.extents);
  }
  return count;
}

/// By the formula: each of four gates reads the input and the output before, and has two biases.
constexpr std::int64_t lstm(std::int64_t inputs, std::int64_t features) {
  return 4 * features * (inputs + features + 2);
}

/// By the formula: 12 width^2 weights and 13 width biases and scales in each block.
constexpr std::int64_t gpt(std::int64_t layers, std::int64_t width, std::int64_t context, std::int64_t classes) {
  return classes * width + context * width + layers * (12 * width * width + 13 * width) + 2 * width;
}

TEST(Network, HasAsManyParametersAsTheLiteratureSays) {
  const nlohmann::json small = {{"small_images", true}};
  const std::vector<Known> all = {
      // Caffe's LeNet (examples/mnist): 520 + 25,050 + 400,500 + 5,010.
      {"lenet", nullptr, fashion, 431'080},
      // LeNet-5, with all 16 x 6 connections of its second convolution: LeCun et al. 1998 leave 36 of them out.
      {"lenet", {{"variant", "lecun"}}, fashion, 61'706},
      {"lenet", {{"variant", "lecun"}}, {1, 32, 32, 10}, 61'706},
      {"mlp", nullptr, fashion, 784 * 64 + 64 + 640 + 10},
      {"mlp", {{"hidden", 13'424}}, fashion, 10'672'090},
      {"mlp", {{"widths", {300, 100}}}, fashion, 266'610},
      // torchvision's weights: AlexNet as in Krizhevsky 2014, VGG as in Simonyan and Zisserman 2015.
      {"alexnet", nullptr, imagenet, 61'100'840},
      // By the layers: 320 + 18,496 + (3,136 + 1) 2,048 + 2,049 x 2,048 + 20,490; often stated as 10.66 million.
      {"alexnet", small, fashion, 10'660'234},
      {"vgg", {{"depth", 11}}, imagenet, 132'863'336},
      {"vgg", {{"depth", 11}, {"batch_norm", true}}, imagenet, 132'868'840},
      {"vgg", {{"depth", 13}}, imagenet, 133'047'848},
      {"vgg", {{"depth", 13}, {"batch_norm", true}}, imagenet, 133'053'736},
      {"vgg", nullptr, imagenet, 138'357'544},
      {"vgg", {{"batch_norm", true}}, imagenet, 138'365'992},
      {"vgg", {{"depth", 19}}, imagenet, 143'667'240},
      {"vgg", {{"depth", 19}, {"batch_norm", true}}, imagenet, 143'678'248},
      // VGG-16 for CIFAR with one linear layer: 138,365,992 less the three large ones, and 5,130 for that one.
      {"vgg", {{"batch_norm", true}, {"small_images", true}}, cifar, 138'365'992 - 123'642'856 + 5'130},
      // He et al. 2016, as torchvision counts them.
      {"resnet", nullptr, imagenet, 11'689'512},
      {"resnet", {{"depth", 34}}, imagenet, 21'797'672},
      {"resnet", {{"depth", 50}}, imagenet, 25'557'032},
      {"resnet", {{"depth", 101}}, imagenet, 44'549'160},
      {"resnet", {{"depth", 152}}, imagenet, 60'192'808},
      {"resnet", small, cifar, 11'173'962},
      // As timm counts resnetv2_50. Of all the normalisations only the number changes: one for each convolution but the
      // first and the projections, and the last one.
      {"resnet", {{"depth", 50}, {"version", 2}}, imagenet, 25'549'352},
      // Less than version 1 by the normalisations after conv1 and the projections, and as the first one of a stage is
      // of the channels before it; more by the last one.
      {"resnet", {{"version", 2}}, imagenet, 11'689'512 - 2 * (64 + 896 + 448 - 512)},
      {"resnet", {{"depth", 34}, {"version", 2}}, imagenet, 21'797'672 - 2 * (64 + 896 + 448 - 512)},
      // torchvision; Howard et al. 2017 say 4.2 million of version 1, and Sandler et al. 2018 3.4 and 6.9 of version 2
      // with widths 1 and 1.4, of which 6.1 are in the code of others (timm).
      {"mobilenet", nullptr, imagenet, 3'504'872},
      {"mobilenet", {{"version", 1}}, imagenet, 4'231'976},
      {"mobilenet", {{"width", 1.4}}, imagenet, 6'108'776},
      // torchvision's 27,161,264 with the auxiliary classifier, which has 3,326,696.
      {"inception_v3", nullptr, {3, 299, 299, 1000}, 27'161'264 - 3'326'696},
      // The paper's table 6 says 0.27, 0.46, 0.66, 0.85 and 1.7 million.
      {"resnet20", nullptr, cifar, 269'722},
      {"resnet20", {{"depth", 32}}, cifar, 464'154},
      {"resnet20", {{"depth", 44}}, cifar, 658'586},
      {"resnet20", {{"depth", 56}}, cifar, 853'018},
      {"resnet20", {{"depth", 110}}, cifar, 1'727'962},
      {"resnet20", nullptr, fashion, 269'434},
      // Reddi et al. 2021 say 820,522, with one bias for each gate.
      {"char_lstm", nullptr, text(80, 90), 820'522 + 2 * 4 * 256},
      {"char_lstm", nullptr, text(80, 90), 90 * 8 + lstm(8, 256) + lstm(256, 256) + 257 * 90},
      {"gpt", nullptr, text(64, 96), gpt(4, 128, 64, 96)},
      // GPT-2's smallest (Radford et al. 2019), as published.
      {"gpt", {{"layers", 12}, {"heads", 12}, {"width", 768}, {"context", 1024}}, text(128, 50'257), 124'439'808},
      {"gpt",
       {{"layers", 12}, {"heads", 12}, {"width", 768}, {"tied_head", false}},
       text(1024, 50'257),
       gpt(12, 768, 1024, 50'257) + 768 * 50'257},
  };
  std::set<std::string_view> untested;
  NetworkTypes::for_each([&]<class Model>() { untested.insert(Model::type_name); });
  for (const auto& known : all) {
    EXPECT_EQ(count_of(known), known.parameters) << known.model << " " << known.params;
    untested.erase(known.model);
  }
  EXPECT_TRUE(untested.empty()) << *untested.begin();
}

std::string refusal(const std::string& model, const nlohmann::json& params, const ExampleShape& shape) {
  const auto shapes = parameter_shapes(model, params, shape);
  if (shapes) return "";
  EXPECT_EQ(shapes.error().code, Errc::invalid_argument);
  return shapes.error().context;
}

TEST(Network, SaysWhichLayerAnImageIsTooSmallFor) {
  EXPECT_EQ(refusal("lenet", nullptr, {1, 8, 8, 10}),
            "model lenet needs larger images: a kernel of 5 x 5 in layer conv2 does not fit into 20 x 2 x 2");
  EXPECT_EQ(refusal("alexnet", {{"small_images", true}}, {1, 28, 1, 10}),
            "model alexnet needs larger images: pooling 2 x 2 does not fit into 32 x 28 x 1");
  EXPECT_EQ(refusal("resnet", nullptr, cifar),
            "model resnet needs larger images: layer layer4.0.bn1 would normalise 512 x 1 x 1, one pixel of each "
            "channel");
  EXPECT_EQ(refusal("resnet20", nullptr, {1, 7, 28, 10}), "model resnet20 needs images of 8 x 8 or more");
}

TEST(Network, TakesImagesFromACertainSizeOn) {
  struct Least {
    std::string model;
    std::int64_t side;        ///< with the defaults
    std::int64_t side_small;  ///< with small_images, 0 if there is no such option
  };
  const std::vector<Least> all = {
      {"lenet", 16, 0}, {"mlp", 1, 0},      {"resnet20", 8, 0},   {"resnet", 33, 9},
      {"vgg", 32, 17},  {"alexnet", 63, 4}, {"mobilenet", 33, 9}, {"inception_v3", 107, 11}};
  for (const auto& [model, side, side_small] : all) {
    for (const bool small : {false, true}) {
      if (small && side_small == 0) continue;
      const auto params = small ? nlohmann::json{{"small_images", true}} : nlohmann::json(nullptr);
      const auto least = small ? side_small : side;
      EXPECT_EQ(refusal(model, params, {3, least, least, 10}), "");
      for (std::int64_t less = 1; less < least; ++less) {
        const auto why = refusal(model, params, {3, less, less, 10});
        EXPECT_TRUE(why.starts_with("model " + model + " needs ")) << less << ": " << why;
      }
    }
  }
}

TEST(Network, OfEveryModelRefusesOneKindOfExamples) {
  NetworkTypes::for_each([]<class Model>() {
    const std::string name(Model::type_name);
    const auto images = refusal(name, nullptr, {3, 299, 299, 10});
    const auto texts = refusal(name, nullptr, text(32, 10));
    EXPECT_NE(images.empty(), texts.empty()) << name;
    EXPECT_EQ(images + texts, images.empty() ? "model " + name + " takes images, and the examples are texts"
                                             : "model " + name + " takes texts, and the examples are images");
  });
}

TEST(Network, SaysWhichOptionsOfATransformerDoNotFit) {
  EXPECT_EQ(refusal("gpt", {{"heads", 3}}, text(16, 10)), "model gpt cannot share a width of 128 evenly among 3 heads");
  EXPECT_EQ(refusal("gpt", {{"context", 8}}, text(16, 10)),
            "model gpt has 8 positions in layer positions, and the texts have 16 x 128 tokens and features");
}

TEST(Network, RefusesSizesBeforeAnythingIsAllocated) {
  EXPECT_EQ(refusal("mlp", {{"hidden", 65'536}}, {3, 1000, 1000, 10}),
            "model mlp would have 65536 x 3000000 entries in fc1.weight, and a tensor has at most 2^31");
  EXPECT_EQ(refusal("mlp", nullptr, {std::int64_t{1} << 30, std::int64_t{1} << 30, std::int64_t{1} << 30, 10}),
            "model mlp would have 64 x 9223372036854775807 entries in fc1.weight, and a tensor has at most 2^31");
  const auto many = refusal("gpt", {{"layers", 256}, {"width", 16'384}, {"heads", 16}}, text(16, 10));
  EXPECT_TRUE(many.starts_with("model gpt would have more than 2^33 parameters: blocks.2.")) << many;
  EXPECT_EQ(refusal("mlp", nullptr, {0, 28, 28, 10}), "model mlp takes no examples of 0 x 28 x 28");
  EXPECT_EQ(refusal("mlp", nullptr, {1, 28, 28, 0}), "model mlp cannot tell 0 classes");
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal("alexnet", nullptr, {1, most, 28, 10}),
            "model alexnet takes no examples of 1 x 9223372036854775807 x 28");
}

TEST(Network, NamesEachParameterOnceAndReadsOnlyEarlierLayers) {
  NetworkTypes::for_each([]<class Model>() {
    const bool images = refusal(std::string(Model::type_name), nullptr, {3, 299, 299, 10}).empty();
    const auto network = Model::network({}, images ? ExampleShape{3, 299, 299, 10} : text(32, 10)).value();
    std::set<std::string> names;
    for (const auto& parameter : network.parameters) names.insert(parameter.shape.name);
    EXPECT_EQ(names.size(), network.parameters.size()) << Model::type_name;
    for (std::size_t i = 0; i < network.layers.size(); ++i) {
      for (const auto input : network.layers[i].inputs) EXPECT_LT(input, i) << Model::type_name;
    }
    const auto& output = network.layers[network.output].extents;
    EXPECT_EQ(output, images ? (std::vector<std::int64_t>{10}) : (std::vector<std::int64_t>{10, 32}));
  });
}

std::size_t layer_named(const Network& network, const std::string& name) {
  const auto found = std::ranges::find(network.layers, name, &Layer::name);
  EXPECT_NE(found, network.layers.end()) << name;
  return static_cast<std::size_t>(found - network.layers.begin());
}

template <class Operation>
bool is(const Layer& layer) {
  return std::holds_alternative<Operation>(layer.operation);
}

/// The layer that the first input of a layer comes from.
std::size_t before(const Network& network, std::size_t layer) { return network.layers[layer].inputs.front(); }

/// The first block's branch and shortcut read the same activation; at depths 18 and 34 it comes before the pooling.
void expect_first_block_begins_with_an_activation(std::int64_t depth, bool small) {
  SCOPED_TRACE(std::to_string(depth) + (small ? " for small images" : ""));
  const auto network = ResNet::network({.depth = depth, .version = 2, .small_images = small}, imagenet).value();
  const bool projects = depth >= 50;
  const auto begun = before(network, layer_named(network, "layer1.0.conv1"));
  const auto sum = std::ranges::find_if(network.layers, is<layers::Add>);
  ASSERT_NE(sum, network.layers.end());
  const auto shortcut = sum->inputs.back();
  EXPECT_EQ(projects ? before(network, shortcut) : shortcut, begun);
  const bool pools_last = !projects && !small;
  EXPECT_EQ(is<layers::MaxPool>(network.layers[begun]), pools_last);
  const auto activation = pools_last ? before(network, begun) : begun;
  ASSERT_TRUE(is<layers::Relu>(network.layers[activation]));
  const auto norm = before(network, activation);
  EXPECT_EQ(network.layers[norm].name, "layer1.0.bn1");
  const bool pools_first = projects && !small;
  const auto first = pools_first ? before(network, before(network, norm)) : before(network, norm);
  EXPECT_EQ(network.layers[first].name, "conv1");
}

TEST(Network, OfPreActivationBeginsBothPathsOfItsFirstBlockWithOne) {
  for (const std::int64_t depth : {18, 34, 50}) {
    for (const bool small : {false, true}) expect_first_block_begins_with_an_activation(depth, small);
  }
}

TEST(Network, MarksWhatWeightDecayMayLeaveOut) {
  const auto has = [](const std::string& name, const char* part) { return name.find(part) != std::string::npos; };
  const auto resnet = ResNet::network({}, imagenet).value();
  for (const auto& [shape, fills, turn, decays] : resnet.parameters) {
    const bool norm = has(shape.name, "bn") || has(shape.name, "downsample.1");
    EXPECT_EQ(decays, !norm && !has(shape.name, "bias")) << shape.name;
  }
  for (const auto& network : {CharLstm::network({}, text(16, 10)), Gpt::network({}, text(16, 10))}) {
    for (const auto& [shape, fills, turn, decays] : network->parameters) {
      EXPECT_EQ(decays, !has(shape.name, "bias") && !has(shape.name, "norm")) << shape.name;
    }
  }
}

TEST(Network, BeginsWithTheValuesOfItsPapers) {
  const auto fills = [](const Network& network, const std::string& name) {
    const auto& list = network.parameters;
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Parameter& each) { return each.shape.name == name; });
    EXPECT_NE(found, list.end()) << name;
    EXPECT_EQ(found->fills.size(), 1u) << name;
    return found->fills.front();
  };
  const auto resnet = ResNet::network({}, imagenet).value();
  EXPECT_EQ(fills(resnet, "layer1.0.conv1.weight"), (Fill{Fill::Kind::normal, std::sqrt(2.0 / (64 * 9))}));
  EXPECT_EQ(fills(resnet, "layer1.0.bn1.weight"), (Fill{Fill::Kind::constant, 1}));
  EXPECT_EQ(fills(resnet, "layer1.0.bn2.weight"), (Fill{Fill::Kind::constant, 0}));
  EXPECT_EQ(fills(resnet, "fc.bias"), (Fill{Fill::Kind::uniform, 1 / std::sqrt(512.0)}));
  const auto plain = ResNet::network({.zero_residual = false}, imagenet).value();
  EXPECT_EQ(fills(plain, "layer1.0.bn2.weight"), (Fill{Fill::Kind::constant, 1}));
  const auto gpt = Gpt::network({.layers = 2}, text(16, 10)).value();
  EXPECT_EQ(fills(gpt, "tokens.weight"), (Fill{Fill::Kind::normal, 0.02}));
  EXPECT_EQ(fills(gpt, "blocks.1.mlp.in.bias"), (Fill{Fill::Kind::constant, 0}));
  EXPECT_EQ(fills(gpt, "blocks.1.mlp.out.weight"), (Fill{Fill::Kind::normal, 0.01}));
}

TEST(NetworkBuilder, WorksOutWindowsAsLibTorchDoes) {
  const auto side = [](std::int64_t extent, const layers::Pool& pool) -> std::int64_t {
    NetworkBuilder net("test", {1, extent, extent, 2});
    const auto network = net.finish(net.max_pool(net.images(), pool));
    return network ? network->layers[network->output].extents[1] : 0;
  };
  EXPECT_EQ(side(7, {.kernel = 2, .stride = 2}), 3);
  EXPECT_EQ(side(7, {.kernel = 2, .stride = 2, .round_up = true}), 4);
  EXPECT_EQ(side(8, {.kernel = 2, .stride = 2, .round_up = true}), 4);
  EXPECT_EQ(side(5, {.kernel = 3, .stride = 2, .padding = 1}), 3);
  // A window that would begin behind the image does not count.
  EXPECT_EQ(side(4, {.kernel = 1, .stride = 3, .round_up = true}), 2);
  EXPECT_EQ(side(5, {.kernel = 1, .stride = 3, .round_up = true}), 2);
  EXPECT_EQ(side(1, {.kernel = 2, .stride = 2}), 0);
}

}  // namespace
}  // namespace weir::training
