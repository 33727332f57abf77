#include "training/modes/sync.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <sstream>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/exchange/gradient_trigger.hpp"

namespace weir::training {
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

/// Adds the gradient of `share` times the mean loss over a batch to the parameters' gradients. Returns that mean loss.
float add_gradient(const Replica& replica, std::span<const std::uint32_t> positions, const at::Tensor& share) {
  const auto batch = replica.examples->batch(positions);
  const auto loss = at::cross_entropy_loss(replica.model->forward(batch.input), batch.target);
  const auto value = loss.item<float>();
  if (std::isfinite(value)) loss.backward(share);
  return value;
}

}  // namespace

protocol::Params<Sync::Options> Sync::params() {
  return protocol::Params<Options>().integer(
      "accumulate", &Options::accumulate, {.minimum = 1, .maximum = 65536},
      "Batches of each worker per step. Their mean gradient is exchanged once, beside the last of them.");
}

Result<bool> Sync::train(Replica& replica, Progress& progress) {
  const auto batches = static_cast<std::size_t>(options_.accumulate);
  ensure(replica.spec.training.accumulate == batches, "a replica whose steps have as many batches as the mode's");
  auto& exchange = *replica.exchange;
  GradientTrigger gradients(exchange, replica.model->parameters());
  const auto share = at::full({}, 1.0 / static_cast<double>(batches), at::kFloat);
  replica.model->set_training(true);
  while (replica.step < replica.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    const auto step = replica.step;
    const double rate = replica.learning_rate * replica.schedule->factor(step);
    const auto examples = replica.sampler.examples(step);
    const std::size_t batch_size = examples.size() / batches;
    double loss = 0;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      if (batch + 1 == batches) {
        gradients.begin({.number = step,
                         .epoch = replica.epoch(),
                         .learning_rate = rate,
                         .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                         .begin = start});
      }
      const float value = add_gradient(replica, examples.subspan(batch * batch_size, batch_size), share);
      if (!std::isfinite(value)) return lost_the_loss(value, step + 1, rate);
      loss += value / static_cast<double>(batches);
    }
    const auto agreed = gradients.finish();
    if (!agreed) return agreed.error();
    replica.optimizer->step(exchange.means(), rate);
    replica.step = step + 1;

    StepRecord record{.step = step + 1,
                      .loss = loss,
                      .samples = examples.size(),
                      .seconds = seconds_between(start, std::chrono::steady_clock::now()),
                      .times = agreed->times,
                      .dense_bytes = exchange.dense_bytes_per_step()};
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (agreed->votes > 0) return replica.step == replica.steps_total;
  }
  return true;
}

}  // namespace weir::training
