#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "training/schedules/schedule.hpp"

namespace weir::training {

/// Decreases from 1 to 0 along half a cosine over the whole training (Loshchilov and Hutter 2017), after a linear rise
/// over the first `warmup_epochs`.
class Cosine final : public Schedule {
 public:
  static constexpr std::string_view type_name = "cosine";
  static constexpr std::string_view summary = "down to 0 along half a cosine, after an optional linear warm-up";

  struct Options {
    double warmup_epochs = 0;
  };
  static protocol::Params<Options> params() {
    return protocol::Params<Options>().number("warmup_epochs", &Options::warmup_epochs, {.minimum = 0}, "");
  }
  Cosine(Options options, const ScheduleSetting& setting)
      : warmup_steps_(options.warmup_epochs * static_cast<double>(setting.steps_per_epoch)),
        steps_total_(static_cast<double>(setting.steps_total)) {}

  double factor(std::uint64_t step) const override {
    const auto done = static_cast<double>(step);
    if (done < warmup_steps_) return (done + 1) / (warmup_steps_ + 1);
    const double length = std::max(1.0, steps_total_ - warmup_steps_);
    return 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, (done - warmup_steps_) / length)));
  }

 private:
  double warmup_steps_;
  double steps_total_;
};

}  // namespace weir::training
