#include "training/length.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/errc.hpp"

namespace weir::training {

Result<TrainingLength> length_of(const protocol::JobSpec& spec, std::uint64_t examples,
                                 std::uint32_t gradients_per_step) {
  TrainingLength length{.steps_per_epoch = examples / gradients_per_step / spec.training.samples_per_step()};
  if (length.steps_per_epoch == 0) {
    return Error{Errc::invalid_argument, std::to_string(examples) + " examples are too few for a step of " +
                                             std::to_string(gradients_per_step) + " workers with " +
                                             std::to_string(spec.training.samples_per_step()) + " each"};
  }
  length.steps_total = spec.training.steps_total(length.steps_per_epoch);
  return length;
}

}  // namespace weir::training
