#include "actors/modes/sync.hpp"

#include <ATen/ops/cross_entropy_loss.h>

#include <chrono>
#include <cmath>
#include <sstream>

#include "base/errc.hpp"

namespace weir::actors {
namespace {

using Time = std::chrono::steady_clock::time_point;

double seconds_between(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }

Error lost_the_loss(float loss, std::uint64_t step, double rate) {
  std::ostringstream text;
  text << "the loss became " << (std::isnan(loss) ? "NaN" : "infinite") << " in step " << step
       << " at a learning rate of " << rate
       << ": the training diverged; try a lower training.optimizer.lr or the lr_schedule warmup";
  return {Errc::invalid_argument, text.str()};
}

}  // namespace

Result<bool> Sync::train(Replica& replica, Progress& progress) {
  auto& exchange = *replica.exchange;
  replica.model->set_training(true);
  while (replica.step < replica.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    const auto step = replica.step;
    const double rate = replica.learning_rate * replica.schedule->factor(step);
    exchange.begin({.number = step,
                    .epoch = replica.epoch(),
                    .learning_rate = rate,
                    .vote = progress.stop_wanted() ? 1.0f : 0.0f});

    const auto batch = replica.examples->batch(replica.sampler.batch(step));
    const auto loss = at::cross_entropy_loss(replica.model->forward(batch.input), batch.target);
    const auto value = loss.item<float>();
    if (!std::isfinite(value)) return lost_the_loss(value, step + 1, rate);
    loss.backward();
    const auto agreed = exchange.finish();
    if (!agreed) return agreed.error();
    replica.optimizer->step(exchange.means(), rate);
    replica.step = step + 1;

    StepRecord record{.step = step + 1,
                      .loss = value,
                      .samples = static_cast<std::uint64_t>(batch.target.numel()),
                      .seconds = seconds_between(start, std::chrono::steady_clock::now()),
                      .times = agreed->times,
                      .dense_bytes = exchange.dense_bytes_per_step()};
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (agreed->votes > 0) return replica.step == replica.steps_total;
  }
  return true;
}

}  // namespace weir::actors
