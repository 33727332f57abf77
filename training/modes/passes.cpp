#include "training/modes/passes.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "base/errc.hpp"
#include "training/device.hpp"
#include "training/precision.hpp"
#include "training/thrown.hpp"

namespace weir::training {
namespace {

Error lost_the_loss(float loss, std::uint64_t step, double rate) {
  std::ostringstream text;
  text << "the loss became " << (std::isnan(loss) ? "NaN" : "infinite") << " in step " << step
       << " at a learning rate of " << rate;
  return diverged(text.str());
}

}  // namespace

Error diverged(const std::string& seen) {
  return {Errc::invalid_argument,
          seen + ": the training diverged; try a lower training.optimizer.lr or the lr_schedule warmup"};
}

Passes::Plan Passes::all_steps(const Replica& replica, std::size_t batches) {
  return {.batches = batches, .first_step = replica.step, .steps_end = replica.length.steps_total};
}

Passes::Passes(Replica& replica, const Plan& plan)
    : Passes(replica, plan, Slowdown(replica.spec.training.conditions.slowdown_of(replica.rank))) {}

Passes::Passes(Replica& replica, const Plan& plan, Slowdown slowdown)
    : replica_(replica),
      batches_(plan.batches),
      steps_end_(plan.steps_end),
      step_(plan.first_step),
      share_(
          at::full({}, 1.0 / static_cast<double>(plan.batches), at::TensorOptions(at::kFloat).device(replica.device))),
      slowdown_(std::move(slowdown)),
      loader_(*replica.examples, replica.device) {
  replica.model->set_training(true);
  if (!replica.device.is_cpu()) loss_copy_.emplace(replica.device);
}

/// Does what needs the more memory the more examples a batch has.
template <class Work>
Result<void> Passes::within_memory(Work work) const {
  try {
    work();
  } catch (const c10::OutOfMemoryError& thrown) {
    const auto examples = replica_.spec.training.batch_size;
    return too_little_memory(own_gpu(), std::to_string(examples) + " examples at a time", thrown,
                             examples > 1 ? "training.batch_size " + std::to_string(examples / 2) : "");
  }
  return {};
}

Result<double> Passes::run(double learning_rate, const std::function<void()>& before_last) {
  const auto precision = replica_.spec.training.precision;
  const std::uint64_t step = step_++;
  double loss = 0;
  for (std::size_t number = 0; number < batches_; ++number) {
    at::Tensor of_batch;
    const auto forward = within_memory([&] {
      const Batch batch = take(step, number);
      slowdown_.begin();
      of_batch = at::cross_entropy_loss(logits_of(*replica_.model, batch.input, precision), batch.target);
      if (loss_copy_) loss_copy_->begin(of_batch);
      if (slowdown_.slows()) wait_for_device();
      slowdown_.end();
    });
    if (!forward) return forward.error();
    float value = loss_copy_ ? 0 : of_batch.item<float>();
    if (!std::isfinite(value)) return lost_the_loss(value, step + 1, learning_rate);
    if (number + 1 == batches_ && before_last) before_last();
    const auto backward = within_memory([&] {
      slowdown_.begin();
      of_batch.backward(share_);
      if (slowdown_.slows()) wait_for_device();
      slowdown_.end();
    });
    if (!backward) return backward.error();
    if (loss_copy_) value = loss_copy_->wait();
    if (!std::isfinite(value)) return lost_the_loss(value, step + 1, learning_rate);
    loss += value / static_cast<double>(batches_);
  }
  return loss;
}

/// A pass on a GPU has only been begun when the call returns.
void Passes::wait_for_device() {
  if (replica_.device.is_cpu()) return;
  streams_of(replica_.device).getStream(replica_.device).synchronize();
}

Batch Passes::take(std::uint64_t step, std::size_t number) {
  if (!loader_.asked()) ask(step, number);
  const Batch batch = loader_.take();
  if (number + 1 < batches_) {
    ask(step, number + 1);
  } else if (step + 1 < steps_end_) {
    ask(step + 1, 0);
  }
  return batch;
}

std::vector<at::Tensor> gradients_of(const Model& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor] : model.parameters()) gradients.push_back(tensor.grad());
  return gradients;
}

/// Has a batch prepared.
void Passes::ask(std::uint64_t step, std::size_t number) {
  const auto examples = replica_.sampler.examples(step);
  const std::size_t size = examples.size() / batches_;
  loader_.ask(examples.subspan(number * size, size),
              {.seed = replica_.spec.training.seed, .epoch = replica_.sampler.epoch_of(step)});
}

}  // namespace weir::training
