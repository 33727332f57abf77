#pragma once

#include <algorithm>
#include <string_view>

#include "training/schedules/schedule.hpp"

namespace weir::training {

/// A linear rise over the first `epochs`, then the same rate (Goyal et al. 2017).
class Warmup final : public Schedule {
 public:
  static constexpr std::string_view type_name = "warmup";
  static constexpr std::string_view summary = "a linear rise over the first epochs, then the same rate";

  struct Options {
    double epochs = 1;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>().number("epochs", &Options::epochs, {.minimum = 0}, "");
  }
  Warmup(Options options, const ScheduleSetting& setting)
      : steps_(options.epochs * static_cast<double>(setting.steps_per_epoch)) {}

  double factor(std::uint64_t step) const override {
    return std::min(1.0, (static_cast<double>(step) + 1) / (steps_ + 1));
  }

 private:
  double steps_;
};

}  // namespace weir::training
