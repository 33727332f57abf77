#pragma once

#include <cstdint>

#include "actors/menu.hpp"
#include "actors/replica.hpp"

namespace weir::actors {

/// One optimizer step, as a mode reports it. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< done so far, this one included
  double loss = 0;         ///< of this rank's batch
  std::uint64_t samples = 0;
  double seconds = 0;          ///< the whole step
  double compute_seconds = 0;  ///< the compute thread at work: data, forward, backward, optimizer
  Exchange::Times times;
  std::uint64_t dense_bytes = 0;  ///< what a dense exchange would have sent
};

/// Whom a mode tells of its progress. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to end after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// After each step, when the replica is whole. Fails with what ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;
};

/// How ranks train together.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Trains until steps_total, or until the ranks agree to stop. Blocks; for the compute thread.
  /// Gives whether all steps are done. Fails with: invalid_argument (the loss is no number any more), and with what the
  /// exchange fails with.
  virtual Result<bool> train(Replica& replica, Progress& progress) = 0;
};

/// Every mode; what they are made of is training.params of the job spec.
const Menu<Mode>& modes();

}  // namespace weir::actors
