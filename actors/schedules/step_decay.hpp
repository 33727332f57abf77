#pragma once

#include <cmath>
#include <memory>
#include <string_view>

#include "actors/schedules/schedule.hpp"

namespace weir::actors {

/// Multiplies the rate by `gamma` after every `epochs` epochs.
class StepDecay final : public Schedule {
 public:
  static constexpr std::string_view type_name = "step";
  static constexpr std::string_view summary = "times gamma after every so many epochs";
  static nlohmann::json schema() {
    return {{"type", "object"},
            {"properties",
             {{"epochs", {{"type", "number"}, {"exclusiveMinimum", 0}, {"default", 30}}},
              {"gamma", {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}, {"default", 0.1}}}}},
            {"additionalProperties", false}};
  }
  static Result<std::unique_ptr<Schedule>> make(const nlohmann::json& params, const ScheduleSetting& setting) {
    return std::make_unique<StepDecay>(params.at("epochs").get<double>() * static_cast<double>(setting.steps_per_epoch),
                                       params.at("gamma"));
  }

  StepDecay(double every_steps, double gamma) : every_steps_(every_steps), gamma_(gamma) {}
  double factor(std::uint64_t step) const override {
    return std::pow(gamma_, std::floor(static_cast<double>(step) / every_steps_));
  }

 private:
  double every_steps_;
  double gamma_;
};

}  // namespace weir::actors
