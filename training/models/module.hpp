#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

#include "training/models/model.hpp"

namespace weir::training {

/// A Model that wraps a LibTorch module with `at::Tensor forward(const at::Tensor&)`.
template <class Net>
class Module final : public Model {
 public:
  template <class... Args>
  explicit Module(Args&&... args) : net_(std::make_shared<Net>(std::forward<Args>(args)...)) {}

  at::Tensor forward(const at::Tensor& input) override { return net_->forward(input); }
  std::vector<NamedTensor> parameters() const override { return listed(net_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(net_->named_buffers()); }
  void set_training(bool training) override { net_->train(training); }

 private:
  template <class Dictionary>
  static std::vector<NamedTensor> listed(const Dictionary& dictionary) {
    std::vector<NamedTensor> list;
    for (const auto& item : dictionary) list.push_back({item.key(), item.value()});
    return list;
  }

  std::shared_ptr<Net> net_;
};

}  // namespace weir::training
