#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "cluster/records.hpp"

namespace weir::cluster {

/// Where an attempt is, from the start of its processes to their end, and why it fails. A value without any effects:
/// JobRun acts on it and commits each of its transitions as one change.
///
///     spawning -> initialising -> joining -> training -> stopping -> taking_down -> over
///
/// Any of the first five may be followed by taking_down at once; before the training begins there is nothing to stop.
class AttemptState {
 public:
  enum class Step : std::uint8_t { spawning, initialising, joining, training, stopping, taking_down, over };

  Step step() const { return step_; }
  /// What the job shows of it. Processes that are taken down belong to the phase before. A job that is to stop shows
  /// that from then on, whatever the step is: the next head ends a job that it finds so, and runs any other again.
  JobPhase phase() const { return stop_requested_ ? JobPhase::stopping : phase_; }
  /// Moves to a step that may follow; anything else is a bug. Returns whether phase() is another now.
  bool enter(Step next);

  /// No worker is waited for any more, and how processes end says nothing.
  bool is_ending() const { return step_ >= Step::taking_down; }
  bool is_over() const { return step_ == Step::over; }

  /// Somebody wants the job to stop. Returns whether phase() is another now.
  bool request_stop();
  bool stop_requested() const { return stop_requested_; }
  /// The head stops: nothing is waited for.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  /// Something went wrong. Of signs the first one is kept, which may be the consequence of a cause that is not known
  /// yet; of causes the first one, too.
  void show_sign(std::string what);
  void blame(std::string cause);
  /// A process, node or connection died, which another attempt may cure. What dies once the cause of a failure is known
  /// or the processes are taken down is not the cause.
  void note_loss() { lost_ = lost_ || (!knows_cause() && !is_ending()); }
  /// A GPU was lost, which is known later than the failure that it causes.
  void note_lost_gpu(const std::string& uuid);
  /// It is there again. What fails from now on does not fail for it.
  void note_gpu_back(const std::string& uuid);

  bool has_failed() const { return !sign_.empty() || !cause_.empty(); }
  bool knows_cause() const { return !cause_.empty(); }
  /// The cause, or else the first sign.
  const std::string& reason() const { return cause_.empty() ? sign_ : cause_; }
  bool has_lost() const { return lost_ || !lost_gpus_.empty(); }
  /// Whether a worker's cause only repeats the first sign, which it was told when it was ended.
  bool is_echo(std::string_view cause) const { return !sign_.empty() && cause.find(sign_) != std::string_view::npos; }

 private:
  Step step_ = Step::spawning;
  JobPhase phase_ = JobPhase::spawning;  ///< of the step
  bool stop_requested_ = false;
  bool abandoned_ = false;
  bool lost_ = false;
  std::set<std::string> lost_gpus_;  ///< UUIDs
  std::string sign_;
  std::string cause_;
};

}  // namespace weir::cluster
