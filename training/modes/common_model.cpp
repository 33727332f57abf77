#include "training/modes/common_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <ranges>

namespace weir::training {

CommonModel::CommonModel(const Model& model) : trained_(model.parameters()) {
  for (const auto& [name, tensor] : trained_) {
    all_.push_back(static_cast<std::uint32_t>(all_.size()));
    common_.push_back({name, tensor.detach().clone()});
    differences_.push_back(at::empty_like(common_.back().tensor));
  }
}

void CommonModel::give(Exchange& exchange, std::span<const std::uint32_t> parameters) {
  const at::NoGradGuard no_grad;
  for (const auto i : std::views::reverse(parameters)) {
    at::sub_out(differences_[i], trained_[i].tensor, common_[i].tensor);
    exchange.give(i, differences_[i]);
  }
}

void CommonModel::add(std::uint32_t parameter, const at::Tensor& difference, double rate) {
  const at::NoGradGuard no_grad;
  common_[parameter].tensor.add_(difference, rate);
}

void CommonModel::adopt(std::uint32_t parameter, double kept) {
  const at::NoGradGuard no_grad;
  at::Tensor own = trained_[parameter].tensor;
  if (kept == 0) {
    own.copy_(common_[parameter].tensor);
  } else {
    own.lerp_(common_[parameter].tensor, 1 - kept);
  }
}

}  // namespace weir::training
