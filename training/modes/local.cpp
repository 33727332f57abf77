#include "training/modes/local.hpp"

#include <chrono>

#include "base/ensure.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {

protocol::Params<Local::Options> Local::params() {
  return protocol::Params<Options>().integer("accumulate", &Options::accumulate, {.minimum = 1, .maximum = 65536},
                                             "Batches of a step.");
}

Result<bool> Local::train(Replica& replica, Progress& progress) {
  ensure(replica.world == 1, "a job whose mode exchanges nothing has one worker");
  Passes passes(replica, Passes::all_steps(replica, static_cast<std::size_t>(options_.accumulate)));
  while (replica.step < replica.length.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const StepRecord record{.step = replica.step,
                            .loss = *loss,
                            .samples = replica.spec.training.samples_per_step(),
                            .exchanged = true,
                            .seconds = seconds,
                            .compute_seconds = seconds,
                            .times = {}};
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (progress.stop_wanted()) return replica.step == replica.length.steps_total;
  }
  return true;
}

}  // namespace weir::training
