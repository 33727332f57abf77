#include "training/optimizers/adam.hpp"

namespace weir::training {

void Adam::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Moments::Turn& turn) {
    turn.for_slices([&](Moments::Slice slice) {
      if (turn.rule.weight_decay != 0) slice.gradient = slice.gradient.add(slice.values, turn.rule.weight_decay);
      const auto [numerator, denominator, divisor] = moments_.add(slice);
      slice.values.addcdiv_(numerator, denominator, -learning_rate * turn.rule.lr_scale / divisor);
    });
  });
}

}  // namespace weir::training
