#include "training/modes/sync.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/modes/passes.hpp"
#include "training/modes/train_apart.hpp"
#include "training/optimizers/clip.hpp"

namespace weir::training {
namespace {

using Time = std::chrono::steady_clock::time_point;

double seconds_between(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

protocol::Params<Sync::Options> Sync::params() {
  return protocol::Params<Options>().integer(
      "accumulate", &Options::accumulate, {.minimum = 1, .maximum = 65536},
      "Batches of each worker per step. Their mean gradient is exchanged once, beside the last of them.");
}

Result<bool> Sync::train(Replica& replica, Progress& progress) {
  const auto batches = static_cast<std::size_t>(options_.accumulate);
  ensure(replica.spec.training.accumulate == batches, "a replica whose steps have as many batches as the mode's");
  if (replica.exchanges() == Exchanged::differences) {
    std::uint64_t rounds = replica.step;
    return train_apart(replica, progress,
                       {.batches = batches, .exchanges = [](std::uint64_t) { return true; }, .rounds = rounds});
  }
  auto& exchange = *replica.exchange;
  GradientTrigger gradients(exchange, replica.model->parameters());
  Passes passes(replica, {.batches = batches, .first_step = replica.step, .steps_end = replica.length.steps_total});
  const auto& limits = replica.spec.training.clip;
  const bool clips = limits.norm || limits.value;
  // A rank knows the norm of its gradients after the backward pass: they cannot be on their way before.
  const bool clips_own = clips && limits.local;
  while (replica.step < replica.length.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    const double rate = replica.learning_rate * replica.schedule->factor(replica.step);
    const auto begin_exchange = [&] {
      gradients.begin({.number = replica.step,
                       .epoch = replica.epoch(),
                       .learning_rate = rate,
                       .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                       .samples = replica.spec.training.samples_per_step(),
                       .begin = start});
    };
    const auto loss = passes.run(rate, clips_own ? std::function<void()>() : begin_exchange);
    if (!loss) return loss.error();
    if (clips_own) {
      clip(limits, gradients_of(*replica.model));
      begin_exchange();
    }
    const auto agreed = gradients.finish();
    if (!agreed) return agreed.error();
    if (clips && !clips_own) clip(limits, tensors_of(exchange.means()));
    replica.optimizer->step(exchange.means(), rate);
    ++replica.step;

    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .seconds = seconds_between(start, std::chrono::steady_clock::now()),
                      .times = agreed->times,
                      .dense_bytes = exchange.dense_bytes_per_step()};
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (agreed->votes > 0) return replica.step == replica.length.steps_total;
  }
  return true;
}

}  // namespace weir::training
