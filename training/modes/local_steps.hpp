#pragma once

#include "base/result.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {

/// Optimizer steps that a worker makes by itself, with its own gradients.
class LocalSteps {
 public:
  /// `replica` must outlive this object.
  explicit LocalSteps(Replica& replica) : replica_(replica), passes_(replica, 1) {}

  /// Makes one: passes, clipping, optimizer. Takes the gradients away. Returns the loss. Fails with: invalid_argument
  /// (the loss became NaN or infinite).
  Result<double> make(double learning_rate);

 private:
  Replica& replica_;
  Passes passes_;
};

}  // namespace weir::training
