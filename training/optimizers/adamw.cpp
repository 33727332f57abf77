#include "training/optimizers/adamw.hpp"

#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_mul.h>

namespace weir::training {

void AdamW::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Turn& turn, const ParameterRule& rule) {
    const double rate = learning_rate * rule.lr_scale;
    for_slices(turn, moments_.parameters(), [&](const Slice& slice) {
      const auto values = slice.of(moments_.parameters());
      if (rule.weight_decay != 0) at::_foreach_mul_(values, 1 - rate * rule.weight_decay);
      const auto [numerators, denominators, divisor] = moments_.add(slice, slice.of(moments_.gradients()));
      at::_foreach_addcdiv_(values, numerators, denominators, -rate / divisor);
    });
  });
}

}  // namespace weir::training
