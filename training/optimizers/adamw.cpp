#include "training/optimizers/adamw.hpp"

namespace weir::training {

void AdamW::step(std::span<Mean> means, double learning_rate) {
  moments_.step(means, [&](const Moments::Turn& turn) {
    turn.for_slices([&](Moments::Slice slice) {
      if (turn.weight_decay != 0) slice.values.mul_(1 - learning_rate * turn.weight_decay);
      const auto [numerator, denominator, divisor] = moments_.add(slice);
      slice.values.addcdiv_(numerator, denominator, -learning_rate / divisor);
    });
  });
}

}  // namespace weir::training
