#include "training/modes/common_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>

#include <chrono>
#include <utility>

#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {

CommonModel::CommonModel(Replica& replica) : exchange_(*replica.exchange), trained_(replica.exchanged_tensors()) {
  for (const auto& [name, tensor] : trained_) {
    common_.push_back(tensor.detach().clone());
    differences_.push_back(at::empty_like(common_.back()));
  }
}

Result<Exchange::Agreed> CommonModel::exchange(const Step& step) {
  const at::NoGradGuard no_grad;
  exchange_.begin(step);
  for (auto i = static_cast<std::uint32_t>(common_.size()); i-- > 0;) {  // in the order of a backward pass
    at::sub_out(differences_[i], trained_[i].tensor, common_[i]);
    exchange_.give(i, differences_[i]);
  }
  auto agreed = exchange_.finish();
  if (!agreed) return agreed;
  const auto means = exchange_.means();
  for (std::size_t i = 0; i < common_.size(); ++i) {
    common_[i].add_(means[i].tensor);
    at::Tensor(trained_[i].tensor).copy_(common_[i]);
  }
  return agreed;
}

Result<bool> train_apart(Replica& replica, Progress& progress, const Rhythm& rhythm) {
  using Clock = std::chrono::steady_clock;
  Passes passes(replica, rhythm.batches);
  CommonModel common(replica);
  std::uint64_t samples = 0;  // since the last exchange, as the next one
  std::uint64_t steps = 0;
  while (replica.step < replica.steps_total) {
    const auto start = Clock::now();
    const double epoch = replica.epoch();
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();

    StepRecord record{.step = replica.step,
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .exchanged = rhythm.exchanges(replica.step),
                      .times = {},
                      .dense_bytes = replica.exchange->dense_bytes_per_step()};
    samples += record.samples;
    ++steps;
    bool stops = false;
    if (record.exchanged) {
      const auto agreed = common.exchange({.number = rhythm.rounds_before(replica.step - 1),
                                           .epoch = epoch,
                                           .learning_rate = 1,  // the optimizers have applied theirs
                                           .vote = progress.stop_wanted() ? 1.0f : 0.0f,
                                           .samples = std::exchange(samples, 0),
                                           .begin = start});
      if (!agreed) return agreed.error();
      record.times = agreed->times;
      record.local_steps = std::exchange(steps, 0);
      stops = agreed->votes > 0;
    }
    record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (stops) return replica.step == replica.steps_total;
  }
  return true;
}

}  // namespace weir::training
