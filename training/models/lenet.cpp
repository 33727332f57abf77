#include "training/models/lenet.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "training/models/module.hpp"

namespace weir::training {
namespace {

class Net : public torch::nn::Module {
 public:
  explicit Net(const ExampleShape& shape)
      : conv1_(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, 20, 5)))),
        conv2_(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(20, 50, 5)))),
        fc1_(register_module("fc1", torch::nn::Linear(50 * LeNet::reduced(LeNet::reduced(shape.height)) *
                                                          LeNet::reduced(LeNet::reduced(shape.width)),
                                                      500))),
        fc2_(register_module("fc2", torch::nn::Linear(500, shape.classes))) {}

  at::Tensor forward(const at::Tensor& input) {
    auto x = at::relu(at::max_pool2d(conv1_->forward(input), 2));
    x = at::relu(at::max_pool2d(conv2_->forward(x), 2));
    x = at::relu(fc1_->forward(x.flatten(1)));
    return fc2_->forward(x);
  }

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace

Result<std::unique_ptr<Model>> LeNet::make(protocol::NoOptions options, const ExampleShape& shape) {
  if (auto fits = parameters(options, shape); !fits) return fits.error();
  return std::make_unique<Module<Net>>(shape);
}

}  // namespace weir::training
