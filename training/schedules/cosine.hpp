#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "training/schedules/ramp.hpp"

namespace weir::training {

/// Decreases from 1 to 0 along half a cosine over what the warm-up leaves of the training (Loshchilov and Hutter 2017).
class Cosine final : public RampedSchedule {
 public:
  static constexpr std::string_view type_name = "cosine";
  static constexpr std::string_view summary = "down to 0 along half a cosine, after an optional linear warm-up";
  static constexpr bool type_falls = true;

  struct Options {
    RampOptions ramp;
  };
  static protocol::Params<Options> params() { return ramp_params<Options>(); }
  Cosine(const Options& options, const ScheduleSetting& setting)
      : RampedSchedule(options.ramp, setting),
        length_(std::max(1.0, static_cast<double>(setting.steps_total) - warmup_steps())) {}

 protected:
  double decay(double done) const override {
    if (done <= warmup_steps()) return 1;
    return 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, (done - warmup_steps()) / length_)));
  }

 private:
  double length_;
};

}  // namespace weir::training
