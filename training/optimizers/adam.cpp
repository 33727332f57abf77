#include "training/optimizers/adam.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>

namespace weir::training {

void Adam::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Turn& turn, const ParameterRule& rule) {
    for_slices(turn, moments_.parameters(), [&](const Slice& slice) {
      const auto values = slice.of(moments_.parameters());
      auto gradients = slice.of(moments_.gradients());
      if (rule.weight_decay != 0) gradients = at::_foreach_add(gradients, values, rule.weight_decay);
      const auto [numerators, denominators, divisor] = moments_.add(slice, gradients);
      at::_foreach_addcdiv_(values, numerators, denominators, -learning_rate * rule.lr_scale / divisor);
    });
  });
}

}  // namespace weir::training
