#include "training/modes/train_apart.hpp"

#include <chrono>
#include <utility>

#include "training/modes/common_model.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {

Result<bool> train_apart(Replica& replica, Progress& progress, const Rhythm& rhythm) {
  using Clock = std::chrono::steady_clock;
  Exchange& exchange = *replica.exchange;
  Passes passes(replica, Passes::all_steps(replica, rhythm.batches));
  CommonModel common(replica.exchanged_tensors());
  std::uint64_t samples = 0;  // since the last exchange, as the next one
  std::uint64_t steps = 0;
  while (replica.step < replica.length.steps_total) {
    const auto start = Clock::now();
    const double epoch = replica.epoch();
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();

    const bool exchanges = rhythm.exchanges(replica.step);
    StepRecord record{.step = replica.step,
                      .rounds = rhythm.rounds,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .exchanged = exchanges,
                      .settled = exchanges,
                      .dense_bytes = exchange.dense_bytes_per_step()};
    samples += record.samples;
    ++steps;
    bool stops = false;
    if (exchanges) {
      if (auto followed = common.follow(replica.exchanged_tensors()); !followed) return followed.error();
      exchange.begin({.number = rhythm.rounds++,
                      .epoch = epoch,
                      .learning_rate = 1,  // the optimizers have applied theirs
                      .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                      .samples = std::exchange(samples, 0),
                      .begin = start});
      common.give(exchange, common.all());
      const auto agreed = exchange.finish();
      if (!agreed) return agreed.error();
      for (const auto i : common.all()) {
        common.add(i, exchange.means()[i].tensor);
        common.adopt(i);
      }
      record.times = agreed->times;
      record.local_steps = std::exchange(steps, 0);
      stops = agreed->votes > 0;
    }
    record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (stops) return replica.step == replica.length.steps_total;
  }
  return true;
}

}  // namespace weir::training
