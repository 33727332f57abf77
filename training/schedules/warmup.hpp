#pragma once

#include <string_view>

#include "training/schedules/ramp.hpp"

namespace weir::training {

/// A linear rise over the first `epochs`, then the same rate (Goyal et al. 2017): a constant rate with a warm-up, under
/// a name of its own.
class Warmup final : public RampedSchedule {
 public:
  static constexpr std::string_view type_name = "warmup";
  static constexpr std::string_view summary = "a linear rise over the first epochs, then the same rate";
  static constexpr bool type_falls = false;

  struct Options {
    double epochs = 1;
    bool scale_with_workers = false;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .number("epochs", &Options::epochs, {.minimum = 0}, "")
        .flag("scale_with_workers", &Options::scale_with_workers,
              "Rise from the rate of one worker to that times the number of workers.");
  }
  Warmup(const Options& options, const ScheduleSetting& setting)
      : RampedSchedule({options.epochs, options.scale_with_workers}, setting) {}

 protected:
  double decay(double) const override { return 1; }
};

}  // namespace weir::training
