#include "training/optimizers/adamw.hpp"

namespace weir::training {

void AdamW::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Moments::Turn& turn) {
    const double rate = learning_rate * turn.rule.lr_scale;
    turn.for_slices([&](Moments::Slice slice) {
      if (turn.rule.weight_decay != 0) slice.values.mul_(1 - rate * turn.rule.weight_decay);
      const auto [numerator, denominator, divisor] = moments_.add(slice);
      slice.values.addcdiv_(numerator, denominator, -rate / divisor);
    });
  });
}

}  // namespace weir::training
