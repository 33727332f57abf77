#include "training/servers/served_mode.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "training/modes/passes.hpp"
#include "training/optimizers/clip.hpp"
#include "training/replica.hpp"
#include "training/servers/client.hpp"

namespace weir::training::servers {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Waits until this worker may go on, and saves its state if it is told to. Returns nothing if it may; else how the
/// training has ended.
Result<std::optional<bool>> rest(Replica& replica, Progress& progress) {
  Client& client = *replica.client;
  auto leave = client.halt();
  while (leave) {
    replica.step = leave->step;
    if ((leave->orders & Rest::save) != 0) {
      auto share = replica.save();
      auto kept = share ? progress.keep(replica.step, std::move(*share)) : Result<void>(share.error());
      if (!kept) return kept.error();
    }
    if ((leave->orders & Rest::end) != 0) return std::optional((leave->orders & Rest::stopped) == 0);
    if ((leave->orders & Rest::stay) == 0) {
      if (!client.halts()) return std::optional<bool>();
      leave = client.halt();
    } else {
      leave = client.wait_for_leave();
    }
  }
  return leave.error();
}

/// One push.
Result<StepRecord> step(Replica& replica, Passes& passes) {
  Client& client = *replica.client;
  const auto start = std::chrono::steady_clock::now();
  const double rate =
      replica.learning_rate * replica.schedule->factor(std::min(client.step(), replica.length.steps_total - 1));
  const auto loss = passes.run(rate);
  if (!loss) return loss.error();
  const auto& limits = replica.spec.training.clip;
  const auto gradients = gradients_of(*replica.model);
  if (limits.norm || limits.value) clip(limits, gradients);
  const auto times = client.push(gradients, rate);
  if (!times) return times.error();
  for (const auto& parameter : replica.model->parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
  replica.step = client.step();
  StepRecord record{.step = replica.step,
                    .loss = *loss,
                    .samples = replica.spec.training.samples_per_step(),
                    .exchanged = false,
                    .seconds = seconds_since(start),
                    .times = {.encode = times->encode, .exchange = times->wait, .decode = times->decode, .wait = 0},
                    .dense_bytes = replica.parameter_count() * sizeof(float)};
  record.times.wait = record.times.encode + record.times.exchange + record.times.decode;
  record.compute_seconds = record.seconds - record.times.wait;
  return record;
}

}  // namespace

Result<bool> ServedMode::train(Replica& replica, Progress& progress) {
  const auto ended = [&](const Error& error) {
    replica.client->abort(error);  // unless it is the group that has failed
    return error;
  };
  Passes passes(replica, {.batches = 1, .first_step = replica.client->clock()});
  while (true) {
    if (replica.client->halts()) {
      const auto end = rest(replica, progress);
      if (!end) return ended(end.error());
      if (*end) return **end;
    }
    const auto record = step(replica, passes);
    if (!record) return ended(record.error());
    if (auto told = progress.step_done(replica, *record); !told) return ended(told.error());
  }
}

}  // namespace weir::training::servers
