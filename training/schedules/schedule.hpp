#pragma once

#include <cstdint>

#include "protocol/catalog.hpp"

namespace weir::training {

/// The length of the training and the number of its workers, for schedules that depend on them.
struct ScheduleSetting {
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t steps_total = 1;
  std::uint32_t workers = 1;
};

/// The learning rate over time, as a factor of training.optimizer.lr. It depends only on the step.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// `step` counts from 0 for the first step of the job.
  virtual double factor(std::uint64_t step) const = 0;
  /// Whether the rate comes down by the last step, apart from an initial rise.
  virtual bool falls() const = 0;
};

/// A schedule has one member more than CatalogEntry asks for: static constexpr bool type_falls. The parameters are
/// training.lr_schedule of the job spec without its name.
struct ScheduleEntry : protocol::CatalogEntry<Schedule, const ScheduleSetting&> {
  bool falls = false;  ///< the rate comes down, apart from an initial rise, if the training is long enough

  template <class S>
  static ScheduleEntry of(const protocol::CatalogWords& words) {
    return {CatalogEntry::of<S>(words), S::type_falls};
  }

  /// {"name", "summary", "params", "falls"}
  nlohmann::json describe() const;
};

using ScheduleCatalog = protocol::Catalog<ScheduleEntry>;

/// All schedules.
const ScheduleCatalog& schedules();

}  // namespace weir::training
