#include "training/modes/sync.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <sstream>
#include <vector>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/datasets/loader.hpp"
#include "training/exchange/gradient_trigger.hpp"
#include "training/optimizers/clip.hpp"

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

/// The batches of a training in their order, each prepared while the one before is in use.
class Batches {
 public:
  Batches(Replica& replica, std::size_t of_step) : replica_(replica), of_step_(of_step), loader_(*replica.examples) {}

  /// Batch `number` of a step.
  Batch take(std::uint64_t step, std::size_t number) {
    if (!loader_.asked()) ask(step, number);
    Batch batch = loader_.take();
    if (number + 1 < of_step_) {
      ask(step, number + 1);
    } else if (step + 1 < replica_.steps_total) {
      ask(step + 1, 0);
    }
    return batch;
  }

 private:
  void ask(std::uint64_t step, std::size_t number) {
    const auto examples = replica_.sampler.examples(step);
    const std::size_t size = examples.size() / of_step_;
    loader_.ask(examples.subspan(number * size, size),
                {.seed = replica_.spec.training.seed, .epoch = replica_.sampler.epoch_of(step)});
  }

  Replica& replica_;
  std::size_t of_step_;
  Loader loader_;
};

/// Adds the gradient of `share` times the mean loss over a batch to the parameters' gradients. Returns that mean loss.
float add_gradient(const Replica& replica, const Batch& batch, const at::Tensor& share) {
  const auto loss = at::cross_entropy_loss(replica.model->forward(batch.input), batch.target);
  const auto value = loss.item<float>();
  if (std::isfinite(value)) loss.backward(share);
  return value;
}

/// The gradients of this rank alone.
std::vector<at::Tensor> own_gradients(const Replica& replica) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor] : replica.model->parameters()) gradients.push_back(tensor.grad());
  return gradients;
}

std::vector<at::Tensor> tensors_of(std::span<const Mean> means) {
  std::vector<at::Tensor> tensors;
  for (const auto& mean : means) tensors.push_back(mean.tensor);
  return tensors;
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
  const auto& limits = replica.spec.training.clip;
  const bool clips = limits.norm || limits.value;
  // A rank knows the norm of its gradients after the backward pass: they cannot be on their way before.
  const bool clips_own = clips && limits.local;
  Batches all_batches(replica, batches);
  replica.model->set_training(true);
  while (replica.step < replica.steps_total) {
    const auto start = std::chrono::steady_clock::now();
    const auto step = replica.step;
    const double rate = replica.learning_rate * replica.schedule->factor(step);
    const auto begin_exchange = [&] {
      gradients.begin({.number = step,
                      .epoch = replica.epoch(),
                      .learning_rate = rate,
                      .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                      .begin = start});
    };
    double loss = 0;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      if (batch + 1 == batches && !clips_own) begin_exchange();
      const float value = add_gradient(replica, all_batches.take(step, batch), share);
      if (!std::isfinite(value)) return lost_the_loss(value, step + 1, rate);
      loss += value / static_cast<double>(batches);
    }
    if (clips_own) {
      clip(limits, own_gradients(replica));
      begin_exchange();
    }
    const auto agreed = gradients.finish();
    if (!agreed) return agreed.error();
    if (clips && !clips_own) clip(limits, tensors_of(exchange.means()));
    replica.optimizer->step(exchange.means(), rate);
    replica.step = step + 1;

    StepRecord record{.step = step + 1,
                      .loss = loss,
                      .samples = replica.spec.training.samples_per_step(),
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
