#include "training/modes/common_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <ranges>
#include <utility>

namespace weir::training {

CommonModel::CommonModel(std::vector<NamedTensor> trained) : trained_(std::move(trained)) {
  for (const auto& [name, tensor] : trained_) {
    all_.push_back(static_cast<std::uint32_t>(all_.size()));
    common_.push_back({name, tensor.detach().clone()});
    differences_.push_back(at::empty_like(common_.back().tensor));
  }
}

Result<void> CommonModel::follow(std::vector<NamedTensor> trained) {
  if (auto alike = expect_alike(trained, common_); !alike) return alike;
  trained_ = std::move(trained);
  return {};
}

void CommonModel::give(Exchange& exchange, std::span<const std::uint32_t> tensors, double scale) {
  const at::NoGradGuard no_grad;
  for (const auto i : std::views::reverse(tensors)) {
    at::sub_out(differences_[i], trained_[i].tensor, common_[i].tensor);
    if (scale != 1) differences_[i].mul_(scale);
    exchange.give(i, differences_[i]);
  }
}

void CommonModel::add(std::uint32_t tensor, const at::Tensor& difference, double rate) {
  const at::NoGradGuard no_grad;
  common_[tensor].tensor.add_(difference, rate);
}

void CommonModel::adopt(std::uint32_t tensor, double kept) {
  const at::NoGradGuard no_grad;
  at::Tensor own = trained_[tensor].tensor;
  if (kept == 0) {
    own.copy_(common_[tensor].tensor);
  } else {
    own.lerp_(common_[tensor].tensor, 1 - kept);
  }
}

}  // namespace weir::training
