#pragma once

#include "base/result.hpp"
#include "training/modes/passes.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// Makes the replica's next step with its own gradients only, clipped as the job says: replica.step is one more then.
/// Returns the mean loss. Fails as Passes::run().
Result<double> own_step(Replica& replica, Passes& passes);

}  // namespace weir::training
