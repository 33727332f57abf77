#pragma once

#include <string_view>

#include "training/schedules/ramp.hpp"

namespace weir::training {

/// A constant rate.
class Constant final : public RampedSchedule {
 public:
  static constexpr std::string_view type_name = "constant";
  static constexpr std::string_view summary = "the same rate throughout";
  static constexpr bool type_falls = false;

  struct Options {
    RampOptions ramp;
  };
  static protocol::Params<Options> params() { return ramp_params<Options>(); }
  Constant(const Options& options, const ScheduleSetting& setting) : RampedSchedule(options.ramp, setting) {}

 protected:
  double decay(double) const override { return 1; }
};

}  // namespace weir::training
