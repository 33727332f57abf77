#pragma once

#include <cmath>
#include <string_view>

#include "training/schedules/ramp.hpp"

namespace weir::training {

/// Multiplies the rate by `gamma` after every `epochs` epochs.
class StepDecay final : public RampedSchedule {
 public:
  static constexpr std::string_view type_name = "step";
  static constexpr std::string_view summary = "times gamma after every so many epochs";
  static constexpr bool type_falls = true;

  struct Options {
    RampOptions ramp;
    double epochs = 30;
    double gamma = 0.1;
  };
  static protocol::Params<Options> params() {
    return ramp_params<Options>()
        .number("epochs", &Options::epochs, {.exclusive_minimum = 0}, "")
        .number("gamma", &Options::gamma, {.exclusive_minimum = 0, .maximum = 1}, "");
  }
  StepDecay(const Options& options, const ScheduleSetting& setting)
      : RampedSchedule(options.ramp, setting), epochs_(options.epochs), gamma_(options.gamma) {}

 protected:
  double decay(double done) const override { return std::pow(gamma_, times(done)); }

 private:
  /// How often the rate has been multiplied once `done` steps are done.
  double times(double done) const {
    const double nearest = std::round(done / steps_in(epochs_));
    return done < steps_in(nearest * epochs_) ? nearest - 1 : nearest;
  }

  double epochs_;
  double gamma_;
};

}  // namespace weir::training
