#include "training/models/resnet.hpp"

#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "training/models/module.hpp"

namespace weir::training {
namespace {

constexpr auto stages = ResNet::stages;

torch::nn::Conv2d conv3x3(std::int64_t from, std::int64_t to, std::int64_t stride) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false));
  torch::nn::init::kaiming_normal_(conv->weight);
  return conv;
}

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(std::int64_t from, std::int64_t to)
      : added_channels_(to - from),
        conv1_(register_module("conv1", conv3x3(from, to, from == to ? 1 : 2))),
        norm1_(register_module("norm1", torch::nn::BatchNorm2d(to))),
        conv2_(register_module("conv2", conv3x3(to, to, 1))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(to))) {}

  at::Tensor forward(const at::Tensor& input) {
    auto x = at::relu(norm1_->forward(conv1_->forward(input)));
    x = norm2_->forward(conv2_->forward(x));
    return at::relu(x + shortcut(input));
  }

 private:
  at::Tensor shortcut(const at::Tensor& input) const {
    if (added_channels_ == 0) return input;
    const auto front = added_channels_ / 2;
    const auto halved = input.slice(2, 0, input.size(2), 2).slice(3, 0, input.size(3), 2);
    return at::constant_pad_nd(halved, {0, 0, 0, 0, front, added_channels_ - front});
  }

  std::int64_t added_channels_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
};
TORCH_MODULE(Block);

class Net : public torch::nn::Module {
 public:
  Net(const ExampleShape& shape, std::int64_t depth, std::int64_t width)
      : conv_(register_module("conv", conv3x3(shape.channels, width, 1))),
        norm_(register_module("norm", torch::nn::BatchNorm2d(width))),
        blocks_(register_module("blocks", torch::nn::Sequential())),
        fc_(register_module("fc", torch::nn::Linear(width << (stages - 1), shape.classes))) {
    auto channels = width;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      for (std::int64_t i = 0; i < (depth - 2) / 6; ++i) {
        blocks_->push_back(Block(channels, width << stage));
        channels = width << stage;
      }
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = blocks_->forward(at::relu(norm_->forward(conv_->forward(input))));
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
  torch::nn::Sequential blocks_;
  torch::nn::Linear fc_;
};

}  // namespace

Result<std::unique_ptr<Model>> ResNet::make(Options options, const ExampleShape& shape) {
  if (auto fits = parameters(options, shape); !fits) return fits.error();
  return std::make_unique<Module<Net>>(shape, options.depth, options.width);
}

}  // namespace weir::training
