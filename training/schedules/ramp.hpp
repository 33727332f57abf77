#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "protocol/epochs.hpp"
#include "training/schedules/schedule.hpp"

namespace weir::training {

/// How a training with large batches begins, and how large its rate becomes (Goyal et al. 2017); parameters of every
/// schedule.
struct RampOptions {
  double warmup_epochs = 0;
  bool scale_with_workers = false;
};

/// A schedule that follows a ramp: its factor is that of the ramp times its own. With P workers, a step takes P times
/// as many examples, for which P times the rate is right, but not from the first step on:
///
///     after the warm-up       scale_with_workers ? P : 1
///     in step s of W in it    scale_with_workers ? 1 + (P - 1) s / W : (s + 1) / (W + 1)
///
/// So the scaled ramp rises from the rate of one worker, and the other one from nearly nothing. The schedule's own part
/// counts epochs from the beginning of the training, the warm-up included.
class RampedSchedule : public Schedule {
 public:
  double factor(std::uint64_t step) const final {
    const auto done = static_cast<double>(step);
    return ramp(done) * decay(done);
  }
  bool falls() const final { return decay(last_step_) < decay(0); }

 protected:
  RampedSchedule(const RampOptions& options, const ScheduleSetting& setting)
      : steps_per_epoch_(setting.steps_per_epoch),
        warmup_steps_(steps_in(options.warmup_epochs)),
        scaled_(options.scale_with_workers),
        peak_(scaled_ ? static_cast<double>(setting.workers) : 1),
        last_step_(static_cast<double>(setting.steps_total) - 1) {}

  /// The schedule's own factor once `done` steps are done, from 0 to 1.
  virtual double decay(double done) const = 0;

  /// The steps of so many epochs, both of which may be fractions.
  double steps_in(double epochs) const { return protocol::fractional_steps(epochs, steps_per_epoch_); }
  double warmup_steps() const { return warmup_steps_; }

 private:
  double ramp(double done) const {
    if (done >= warmup_steps_) return peak_;
    return scaled_ ? 1 + (peak_ - 1) * done / warmup_steps_ : (done + 1) / (warmup_steps_ + 1);
  }

  std::uint64_t steps_per_epoch_;
  double warmup_steps_;
  bool scaled_;
  double peak_;
  double last_step_;
};

/// The parameters of a schedule whose options have a RampOptions `ramp`; it adds its own to them.
template <class Options>
protocol::Params<Options> ramp_params() {
  return protocol::Params<Options>()
      .number(
          "warmup_epochs", [](Options& options) -> double& { return options.ramp.warmup_epochs; },
          {.minimum = 0, .maximum = 100000}, "The rate rises linearly for that long.")
      .flag(
          "scale_with_workers", [](Options& options) -> bool& { return options.ramp.scale_with_workers; },
          "Multiply the rate by the number of workers; a warm-up then begins at the rate of one.");
}

}  // namespace weir::training
