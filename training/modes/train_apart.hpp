#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "training/modes/mode.hpp"

namespace weir::training {

/// When ranks that step by themselves exchange.
struct Rhythm {
  std::size_t batches = 1;                             ///< of a step
  std::function<bool(std::uint64_t steps)> exchanges;  ///< when so many steps are done
  std::uint64_t& rounds;                               ///< exchanges of the whole training so far; is counted on
};

/// Trains as Mode::train() says: each rank with an optimizer of its own, and a common model to which the aggregate of
/// how much theirs differ from it is added.
Result<bool> train_apart(Replica& replica, Progress& progress, const Rhythm& rhythm);

}  // namespace weir::training
