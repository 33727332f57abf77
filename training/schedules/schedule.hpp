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
};

/// The parameters are training.lr_schedule of the job spec without its name.
using ScheduleCatalog = protocol::Catalog<protocol::CatalogEntry<Schedule, const ScheduleSetting&>>;

/// All schedules.
const ScheduleCatalog& schedules();

}  // namespace weir::training
