#pragma once

#include <string_view>

#include "training/schedules/schedule.hpp"

namespace weir::training {

/// A constant rate.
class Constant final : public Schedule {
 public:
  static constexpr std::string_view type_name = "constant";
  static constexpr std::string_view summary = "the same rate throughout";

  double factor(std::uint64_t) const override { return 1; }
};

}  // namespace weir::training
