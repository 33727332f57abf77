#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "protocol/job_spec.hpp"

namespace weir::training {

/// How many optimizer steps a training has.
struct TrainingLength {
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t steps_total = 1;

  double epochs_total() const { return epoch_at(steps_total); }
  double epoch_at(std::uint64_t step) const { return static_cast<double>(step) / static_cast<double>(steps_per_epoch); }
};

/// How long a training is compressed less than later: until so many steps of the job and so many exchanges are done.
struct WarmupLength {
  std::uint64_t steps = 0;
  std::uint64_t rounds = 0;
};

/// `gradients_per_step`: how many workers' gradients make one step. Fails with: invalid_argument (there are not enough
/// examples for one).
Result<TrainingLength> length_of(const protocol::JobSpec& spec, std::uint64_t examples,
                                 std::uint32_t gradients_per_step);

}  // namespace weir::training
