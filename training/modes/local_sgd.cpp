#include "training/modes/local_sgd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "training/modes/passes.hpp"
#include "training/optimizers/clip.hpp"

namespace weir::training {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The model that all ranks had last in common, beside the one that this rank trains.
class CommonModel {
 public:
  explicit CommonModel(const Model& model) : trained_(model.parameters()) {
    for (const auto& parameter : trained_) {
      common_.push_back(parameter.tensor.detach().clone());
      differences_.push_back(at::empty_like(common_.back()));
    }
  }

  /// Gives an exchange what has changed since, the last tensors first.
  void give(Exchange& exchange) {
    const at::NoGradGuard no_grad;
    for (auto i = static_cast<std::uint32_t>(common_.size()); i-- > 0;) {
      at::sub_out(differences_[i], trained_[i].tensor, common_[i]);
      exchange.give(i, differences_[i]);
    }
  }

  /// Adds the mean of what all ranks have given, and goes on from there.
  void add(std::span<const Mean> means) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < common_.size(); ++i) {
      common_[i].add_(means[i].tensor);
      at::Tensor(trained_[i].tensor).copy_(common_[i]);
    }
  }

 private:
  const std::vector<NamedTensor> trained_;
  std::vector<at::Tensor> common_;
  std::vector<at::Tensor> differences_;
};

/// Has the optimizer apply this rank's own gradients, and takes them away.
void step_alone(Replica& replica, double rate) {
  std::vector<Mean> means;
  for (const auto& [name, tensor] : replica.model->parameters()) {
    const auto& gradient = tensor.grad();
    means.push_back({.tensor = gradient.defined() ? gradient.contiguous() : at::zeros_like(tensor.detach()),
                     .sparse = false,
                     .positions = {}});
  }
  replica.optimizer->step(means, rate);
  for (const auto& parameter : replica.model->parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
}

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
  Passes passes(replica, {.first_step = replica.step, .steps_end = replica.steps_total});
  CommonModel common(*replica.model);
  const auto& limits = replica.spec.training.clip;
  while (replica.step < replica.steps_total) {
    const auto start = Clock::now();
    const double rate = replica.learning_rate * replica.schedule->factor(replica.step);
    const double epoch = replica.epoch();
    const auto loss = passes.run(rate);
    if (!loss) return loss.error();
    if (limits.norm || limits.value) clip(limits, gradients_of(*replica.model));
    step_alone(replica, rate);
    ++replica.step;

    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .exchanged = exchanges_after(replica, replica.step),
                      .times = {},
                      .dense_bytes = exchange.dense_bytes_per_step()};
    bool stops = false;
    if (record.exchanged) {
      exchange.begin({.number = rounds_before(replica, replica.step - 1),
                      .epoch = epoch,
                      .learning_rate = 1,  // the optimizers have applied theirs
                      .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                      .begin = start});
      common.give(exchange);
      const auto agreed = exchange.finish();
      if (!agreed) return agreed.error();
      common.add(exchange.means());
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
