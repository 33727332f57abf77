#pragma once

#include <memory>
#include <string_view>

#include "actors/schedules/schedule.hpp"

namespace weir::actors {

/// A constant rate.
class Constant final : public Schedule {
 public:
  static constexpr std::string_view type_name = "constant";
  static constexpr std::string_view summary = "the same rate throughout";
  static nlohmann::json schema() { return no_params(); }
  static Result<std::unique_ptr<Schedule>> make(const nlohmann::json&, const ScheduleSetting&) {
    return std::make_unique<Constant>();
  }

  double factor(std::uint64_t) const override { return 1; }
};

}  // namespace weir::actors
