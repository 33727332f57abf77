#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "training/exchange/exchange.hpp"

namespace weir::training {

class Replica;

/// The record of one optimizer step, which a mode reports. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done so far, this one included; with servers, those of the job
  /// Steps of the job that the record is about: more than one, where ranks make different numbers before they exchange.
  std::uint64_t steps = 1;
  /// Exchanges before this record, if there is not one in every step of the job.
  std::optional<std::uint64_t> rounds = {};
  double loss = 0;  ///< mean over the examples that this rank used in it
  std::uint64_t samples = 0;
  bool exchanged = true;          ///< the ranks have exchanged in it
  bool settled = true;            ///< the model of the training is as after this step: it may be evaluated and saved
  std::uint64_t local_steps = 0;  ///< where they have exchanged: those that this rank has made since the last time
  double seconds = 0;             ///< the whole record
  double compute_seconds = 0;     ///< the compute thread without its waits: data, forward, backward, optimizer
  Exchange::Times times = {};
  std::uint64_t dense_bytes = 0;  ///< bytes that a dense exchange would have sent
  /// Of the entries that a compressor chose, this rank has sent so many, if that changes.
  std::optional<double> share = {};
  /// How far the ranks' models are from their mean, if that was measured: the square root of the mean square.
  std::optional<double> consensus_distance = {};
};

/// The record of one step of a server.
struct ServedRecord {
  std::uint64_t step = 0;  ///< of the job, so far
  double staleness = 0;    ///< versions between what a push was computed on and what it was applied to: the mean
  std::uint64_t staleness_max = 0;
  std::uint64_t applied = 0;  ///< gradients, in this step
  std::uint64_t dropped = 0;  ///< gradients that came too late, in this step
  double wait_seconds = 0;    ///< without a message to work on
};

/// Whether something that is due after every so many steps (0: never) is due between two of them, the later included.
inline bool is_due(std::uint64_t every, std::uint64_t before, std::uint64_t now) {
  return every > 0 && now / every > before / every;
}

/// Receives the progress of a mode. Called on the compute thread; may block it.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Whether this rank wants to stop; training then ends after the next step that all ranks agree on.
  virtual bool stop_wanted() const = 0;

  /// Whether the model of the training should be there after so many steps. All ranks answer alike.
  virtual bool model_wanted(std::uint64_t /*steps*/) const { return false; }

  /// Called after each step. An error ends the training.
  virtual Result<void> step_done(const Replica& replica, const StepRecord& record) = 0;

  // The rest is of modes with servers, where the first server decides when, and of state servers.

  /// Called on every rank while nothing is on its way, after `step` steps of the job: its share of a checkpoint. A step
  /// that is the same as the last time, or as that of the checkpoint that it goes on from, is the same state.
  virtual Result<void> keep(std::uint64_t /*step*/, Bytes /*share*/) { return {}; }
  /// Called on the first server: the whole model, to be evaluated.
  virtual Result<void> evaluate(std::uint64_t /*step*/, Bytes /*model*/) { return {}; }
  /// Called on every server after each step.
  virtual Result<void> served(const ServedRecord& /*record*/) { return {}; }
  /// Called on a state server when the workers are in another step of the job, or have left.
  virtual void granted(std::uint64_t /*step*/) {}
};

}  // namespace weir::training
