#include "training/modes/local_sgd.hpp"

#include <array>

#include "protocol/epochs.hpp"
#include "training/counts.hpp"
#include "training/modes/train_apart.hpp"

namespace weir::training {

protocol::Params<LocalSgd::Options> LocalSgd::params() {
  return protocol::Params<Options>()
      .integer("period", &Options::period, {.minimum = 1, .maximum = 1'000'000},
               "Steps that a worker makes by itself between two exchanges.")
      .number("post_local_epoch", &Options::post_local_epoch, {.minimum = 0, .maximum = 1e6},
              "Epochs at the beginning in which the workers exchange after every step.");
}

std::uint64_t LocalSgd::first_local_step(const Replica& replica) const {
  return protocol::steps_in(options_.post_local_epoch, replica.length.steps_per_epoch);
}

/// Whether the ranks exchange when they have made so many steps.
bool LocalSgd::exchanges_after(const Replica& replica, std::uint64_t steps) const {
  const std::uint64_t first = first_local_step(replica);
  return steps <= first || steps == replica.length.steps_total ||
         (steps - first) % static_cast<std::uint64_t>(options_.period) == 0;
}

Result<bool> LocalSgd::train(Replica& replica, Progress& progress) {
  return train_apart(
      replica, progress,
      {.exchanges = [&](std::uint64_t steps) { return exchanges_after(replica, steps); }, .rounds = rounds_});
}

ModeState LocalSgd::save() const { return {.common = {saved_counts(std::array{rounds_})}}; }

Result<void> LocalSgd::restore(Replica&, std::span<const NamedTensor> common, std::span<const NamedTensor>) {
  const auto counts = restored_counts(common, 1);
  if (!counts) return counts.error();
  rounds_ = counts->front();
  return {};
}

}  // namespace weir::training
