#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/catalog.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// The record of one optimizer step, which a mode reports. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done so far, this one included
  double loss = 0;         ///< mean over the examples that this rank used in it
  std::uint64_t samples = 0;
  bool exchanged = true;       ///< the ranks have exchanged in it, and their models are equal now
  double seconds = 0;          ///< the whole step
  double compute_seconds = 0;  ///< the compute thread without its waits: data, forward, backward, optimizer
  Exchange::Times times;
  std::uint64_t dense_bytes = 0;  ///< bytes that a dense exchange would have sent
};

/// Receives the progress of a mode. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to stop; training then ends after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// Called after each step. An error ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;
};

/// The way in which the ranks train together.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Trains until steps_total, or until the ranks agree to stop. Blocks; must be called on the compute thread. Returns
  /// whether all steps are done. Fails with: invalid_argument (the loss became NaN or infinite), and with what the
  /// exchange fails with.
  virtual Result<bool> train(Replica& replica, Progress& progress) = 0;

  /// What the ranks exchange, as errors call it.
  virtual std::string_view values() const { return "gradient"; }

  /// Whether the optimizers of the ranks differ in their state. Otherwise all apply the same means.
  virtual bool own_optimizers() const { return false; }
};

/// The parameters are training.params of the job spec.
using ModeCatalog = protocol::Catalog<protocol::CatalogEntry<Mode>>;

/// All modes.
const ModeCatalog& modes();

}  // namespace weir::training
