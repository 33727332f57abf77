#include "training/models/mlp.hpp"

#include <torch/nn/modules/linear.h>

#include "training/models/module.hpp"

namespace weir::training {
namespace {

class Net : public torch::nn::Module {
 public:
  Net(const ExampleShape& shape, std::int64_t hidden)
      : fc1_(register_module("fc1", torch::nn::Linear(shape.channels * shape.height * shape.width, hidden))),
        fc2_(register_module("fc2", torch::nn::Linear(hidden, shape.classes))) {}

  at::Tensor forward(const at::Tensor& input) { return fc2_->forward(at::relu(fc1_->forward(input.flatten(1)))); }

 private:
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace

Result<std::unique_ptr<Model>> Mlp::make(Options options, const ExampleShape& shape) {
  return std::make_unique<Module<Net>>(shape, options.hidden);
}

}  // namespace weir::training
