#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "actors/schedules/schedule.hpp"

namespace weir::actors {

/// A linear rise over the first `epochs`, then the same rate (Goyal et al. 2017).
class Warmup final : public Schedule {
 public:
  static constexpr std::string_view type_name = "warmup";
  static constexpr std::string_view summary = "a linear rise over the first epochs, then the same rate";
  static nlohmann::json schema() {
    return {{"type", "object"},
            {"properties", {{"epochs", {{"type", "number"}, {"minimum", 0}, {"default", 1}}}}},
            {"additionalProperties", false}};
  }
  static Result<std::unique_ptr<Schedule>> make(const nlohmann::json& params, const ScheduleSetting& setting) {
    return std::make_unique<Warmup>(params.at("epochs").get<double>() * static_cast<double>(setting.steps_per_epoch));
  }

  explicit Warmup(double steps) : steps_(steps) {}
  double factor(std::uint64_t step) const override {
    return std::min(1.0, (static_cast<double>(step) + 1) / (steps_ + 1));
  }

 private:
  double steps_;
};

}  // namespace weir::actors
