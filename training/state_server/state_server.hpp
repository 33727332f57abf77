#pragma once

#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "training/state_server/step_budget.hpp"

namespace weir::training {

/// Answers the workers of a group, whose ranks are those before this one, until all of them have left. Blocks.
/// `lane`: used for nothing else. `now`: seconds on a clock that never goes back. Fails with: malformed (a message that
/// is none, or does not follow the one before; names the rank, and ends the group), and as Communicator does.
Result<void> serve_states(collectives::Fabric& fabric, std::uint32_t lane, StepBudget& steps,
                          const std::function<double()>& now);

/// A worker's end.
class StateClient {
 public:
  /// `server`: the rank of the state server. `fabric` must outlive this object.
  StateClient(collectives::Fabric& fabric, std::uint32_t lane, std::uint32_t server)
      : fabric_(fabric), lane_(lane), server_(server) {}

  /// How many more local steps to make before the next exchange. Blocks. Fails with: malformed (no answer), and as
  /// Communicator does.
  Result<std::uint64_t> more(const WorkerState& state);

  /// Asks no more.
  Result<void> leave();

 private:
  collectives::Fabric& fabric_;
  const std::uint32_t lane_;
  const std::uint32_t server_;
  std::uint64_t asked_ = 0;
};

}  // namespace weir::training
