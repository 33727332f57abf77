#pragma once

#include <cmath>
#include <string_view>

#include "training/schedules/schedule.hpp"

namespace weir::training {

/// Multiplies the rate by `gamma` after every `epochs` epochs.
class StepDecay final : public Schedule {
 public:
  static constexpr std::string_view type_name = "step";
  static constexpr std::string_view summary = "times gamma after every so many epochs";

  struct Options {
    double epochs = 30;
    double gamma = 0.1;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>()
        .number("epochs", &Options::epochs, {.exclusive_minimum = 0}, "")
        .number("gamma", &Options::gamma, {.exclusive_minimum = 0, .maximum = 1}, "");
  }
  StepDecay(Options options, const ScheduleSetting& setting)
      : every_steps_(options.epochs * static_cast<double>(setting.steps_per_epoch)), gamma_(options.gamma) {}

  double factor(std::uint64_t step) const override {
    return std::pow(gamma_, std::floor(static_cast<double>(step) / every_steps_));
  }

 private:
  double every_steps_;
  double gamma_;
};

}  // namespace weir::training
