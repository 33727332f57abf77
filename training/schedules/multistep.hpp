#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "training/schedules/ramp.hpp"

namespace weir::training {

/// Multiplies the rate by `gamma` at each of the milestones, as He et al. (2016) and Goyal et al. (2017) do.
class MultiStep final : public RampedSchedule {
 public:
  static constexpr std::string_view type_name = "multistep";
  static constexpr std::string_view summary = "times gamma at each of the milestones, which are epochs";
  static constexpr bool type_falls = true;

  struct Options {
    RampOptions ramp;
    std::vector<double> milestones = {30, 60, 80};
    double gamma = 0.1;
  };
  static protocol::Params<Options> params() {
    return ramp_params<Options>()
        .numbers("milestones", &Options::milestones, {.exclusive_minimum = 0}, 64, "Epochs, in any order.")
        .number("gamma", &Options::gamma, {.exclusive_minimum = 0, .maximum = 1}, "");
  }
  MultiStep(const Options& options, const ScheduleSetting& setting)
      : RampedSchedule(options.ramp, setting), gamma_(options.gamma) {
    for (const double epochs : options.milestones) milestones_.push_back(steps_in(epochs));
  }

 protected:
  double decay(double done) const override {
    const auto passed = std::ranges::count_if(milestones_, [&](double milestone) { return done >= milestone; });
    return std::pow(gamma_, static_cast<double>(passed));
  }

 private:
  std::vector<double> milestones_;  ///< in steps
  double gamma_;
};

}  // namespace weir::training
