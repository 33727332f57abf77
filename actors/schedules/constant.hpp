#pragma once

#include <string_view>

#include "actors/schedules/schedule.hpp"

namespace weir::actors {

/// A constant rate.
class Constant final : public Schedule {
 public:
  static constexpr std::string_view type_name = "constant";
  static constexpr std::string_view summary = "the same rate throughout";

  double factor(std::uint64_t) const override { return 1; }
};

}  // namespace weir::actors
