#include "training/optimizers/lamb.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "training/device.hpp"
#include "training/optimizers/norm.hpp"

namespace weir::training {
namespace {

double norm_of(const at::Tensor& tensor) {
  const at::Tensor values = on_host(tensor);
  return std::sqrt(sum_of_squares({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}));
}

/// |x| / |u|; 1 where one of them is zero.
double ratio_of(const at::Tensor& parameter, const at::Tensor& update) {
  const double length = norm_of(parameter);
  const double update_length = norm_of(update);
  return length > 0 && update_length > 0 ? length / update_length : 1;
}

}  // namespace

void Lamb::step(std::span<Mean> means, double learning_rate) {
  const auto parameters = moments_.parameters();
  updates_.resize(parameters.size());
  moments_.step(means, [&](const Turn& turn, const ParameterRule& rule) {
    for (const auto i : turn) updates_[i] = at::empty_like(parameters[i], at::MemoryFormat::Contiguous);
    for_slices(turn, parameters, [&](const Slice& slice) {
      auto [numerators, denominators, divisor] = moments_.add(slice, slice.of(moments_.gradients()));
      const auto updates = slice.of(updates_);
      for (std::size_t i = 0; i < updates.size(); ++i) updates[i].copy_(numerators[i]);
      at::_foreach_div_(updates, denominators);
      at::_foreach_div_(updates, divisor);
      if (!rule.spared) at::_foreach_add_(updates, slice.of(parameters), rule.weight_decay);
    });
    for (const auto i : turn) {
      const double ratio = rule.spared ? 1 : ratio_of(parameters[i], updates_[i]);
      const Turn one{i};
      for_slices(one, parameters, [&](const Slice& slice) {
        at::_foreach_add_(slice.of(parameters), slice.of(updates_), -learning_rate * rule.lr_scale * ratio);
      });
      updates_[i].reset();
    }
  });
}

}  // namespace weir::training
