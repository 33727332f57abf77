#include "training/modes/local_sgd.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "training/modes/common_model.hpp"
#include "training/modes/local_steps.hpp"

namespace weir::training {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

protocol::Params<LocalSgd::Options> LocalSgd::params() {
  return protocol::Params<Options>()
      .integer("period", &Options::period, {.minimum = 1, .maximum = 1'000'000},
               "Steps that a worker makes by itself between two exchanges.")
      .number("post_local_epoch", &Options::post_local_epoch, {.minimum = 0, .maximum = 1e6},
              "Epochs at the beginning in which the workers exchange after every step.");
}

std::uint64_t LocalSgd::first_local_step(const Replica& replica) const {
  return static_cast<std::uint64_t>(
      std::ceil(options_.post_local_epoch * static_cast<double>(replica.sampler.steps_per_epoch())));
}

/// Whether the ranks exchange when they have made so many steps.
bool LocalSgd::exchanges_after(const Replica& replica, std::uint64_t steps) const {
  const std::uint64_t first = first_local_step(replica);
  return steps <= first || steps == replica.steps_total ||
         (steps - first) % static_cast<std::uint64_t>(options_.period) == 0;
}

std::uint64_t LocalSgd::rounds_before(const Replica& replica, std::uint64_t steps) const {
  const std::uint64_t first = first_local_step(replica);
  return std::min(steps, first) + (steps - std::min(steps, first)) / static_cast<std::uint64_t>(options_.period);
}

std::uint64_t LocalSgd::steps_of_rounds(const Replica& replica, std::uint64_t rounds) const {
  const std::uint64_t first = std::min(rounds, first_local_step(replica));
  return first + (rounds - first) * static_cast<std::uint64_t>(options_.period);
}

Result<bool> LocalSgd::train(Replica& replica, Progress& progress) {
  Exchange& exchange = *replica.exchange;
  LocalSteps steps(replica);
  CommonModel common(*replica.model);
  while (replica.step < replica.steps_total) {
    const auto start = Clock::now();
    const double rate = replica.learning_rate * replica.schedule->factor(replica.step);
    const double epoch = replica.epoch();
    const auto loss = steps.make(rate);
    if (!loss) return loss.error();
    ++replica.step;

    const bool exchanges = exchanges_after(replica, replica.step);
    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .exchanged = exchanges,
                      .settled = exchanges,
                      .dense_bytes = exchange.dense_bytes_per_step()};
    bool stops = false;
    if (exchanges) {
      exchange.begin({.number = rounds_before(replica, replica.step - 1),
                      .epoch = epoch,
                      .learning_rate = 1,  // the optimizers have applied theirs
                      .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                      .begin = start});
      common.give(exchange, common.all());
      const auto agreed = exchange.finish();
      if (!agreed) return agreed.error();
      for (const auto i : common.all()) {
        common.add(i, exchange.means()[i].tensor, 1);
        common.adopt(i);
      }
      record.times = agreed->times;
      stops = agreed->votes > 0;
    }
    record.seconds = seconds_since(start);
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (stops) return replica.step == replica.steps_total;
  }
  return true;
}

}  // namespace weir::training
