#include "training/optimizers/lamb.hpp"

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

}  // namespace

void Lamb::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Moments::Turn& turn) {
    const at::Tensor update = at::empty_like(turn.values, at::MemoryFormat::Contiguous);
    const auto update_of = [&](const Moments::Slice& slice) {
      return update.narrow(0, slice.begin, slice.values.numel());
    };
    turn.for_slices([&](const Moments::Slice& slice) {
      const auto [numerator, denominator, divisor] = moments_.add(slice);
      auto part = update_of(slice);
      part.copy_(numerator).div_(denominator).div_(divisor);
      if (!turn.rule.spared) part.add_(slice.values, turn.rule.weight_decay);
    });
    double ratio = 1;
    if (!turn.rule.spared) {
      const double length = norm_of(turn.values);
      const double update_length = norm_of(update);
      if (length > 0 && update_length > 0) ratio = length / update_length;
    }
    turn.for_slices([&](Moments::Slice slice) {
      slice.values.add_(update_of(slice), -learning_rate * turn.rule.lr_scale * ratio);
    });
  });
}

}  // namespace weir::training
