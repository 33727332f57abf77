#pragma once

#include "base/result.hpp"
#include "training/modes/passes.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// Makes a step with this rank's own gradients only, clipped as the job says. Returns the mean loss. Fails as
/// Passes::run().
Result<double> own_step(Replica& replica, Passes& passes, double learning_rate);

/// The same as the replica's next step, of which replica.step is one more then.
Result<double> own_step(Replica& replica, Passes& passes);

}  // namespace weir::training
