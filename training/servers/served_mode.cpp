#include "training/servers/served_mode.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "collectives/topologies/ring.hpp"
#include "training/counts.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/modes/passes.hpp"
#include "training/optimizers/clip.hpp"
#include "training/replica.hpp"
#include "training/servers/tensor_coder.hpp"

namespace weir::training::servers {
namespace {

/// Waits until this worker may go on, and saves its state if it is told to. Returns nothing if it may; else how the
/// training has ended.
Result<std::optional<bool>> rest(Client& client, Replica& replica, Progress& progress) {
  auto leave = client.halt();
  while (leave) {
    replica.step = leave->step;
    if ((leave->flags & Rest::save) != 0) {
      auto share = replica.save();
      auto kept = share ? progress.keep(replica.step, std::move(*share)) : Result<void>(share.error());
      if (!kept) return kept.error();
    }
    if ((leave->flags & Rest::end) != 0) return std::optional((leave->flags & Rest::stopped) == 0);
    if ((leave->flags & Rest::stay) == 0) {
      if (!client.halts()) return std::optional<bool>();
      leave = client.halt();
    } else {
      leave = client.wait_for_leave();
    }
  }
  return leave.error();
}

/// One push.
Result<StepRecord> step(Client& client, Replica& replica, Passes& passes) {
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
                    .samples = client.dropped() ? 0 : replica.spec.training.samples_per_step(),
                    .settled = false,
                    .seconds = seconds_since(start),
                    .times = {.encode = times->encode, .exchange = times->wait, .decode = times->decode, .wait = 0},
                    .dense_bytes = replica.parameter_count() * sizeof(float)};
  record.times.wait = record.times.encode + record.times.exchange + record.times.decode;
  record.compute_seconds = record.seconds - record.times.wait;
  return record;
}

}  // namespace

Result<void> ServedMode::check(const protocol::JobSpec& spec, std::uint32_t /*world*/,
                               const compressors::Compression& compression) const {
  if (const auto reason = misfit(compression)) return Error{Errc::invalid_argument, *reason};
  if (spec.exchange.topology != collectives::Ring::name) {
    return Error{Errc::invalid_argument, "exchange.topology \"" + spec.exchange.topology +
                                             "\": workers exchange with the servers of training.mode only; leave it at "
                                             "\"ring\""};
  }
  if (spec.compression.apply_to == "gradients" && spec.compression.aggregation == "mean") return {};
  return Error{Errc::invalid_argument,
               "where workers push gradients to servers, compression.apply_to is \"gradients\" and "
               "compression.aggregation \"mean\""};
}

Result<void> ServedMode::join(Replica& replica, collectives::Fabric& fabric) {
  ensure(fabric.size() == replica.members(), "a group of the workers and the servers behind them");
  const Client::Setting setting{.servers = replica.others,
                                .evaluates = replica.spec.evaluate_every_steps > 0,
                                .coding = {.seed = replica.spec.training.seed,
                                           .course = replica.course(),
                                           .steps_per_epoch = replica.length.steps_per_epoch,
                                           .workers = replica.world}};
  client_ = std::make_unique<Client>(*replica.model, replica.compression(), fabric, setting, pushes_);
  return {};
}

const TrafficAccount* ServedMode::traffic(const Replica&) const { return client_ ? &client_->traffic() : nullptr; }

ModeState ServedMode::save() const { return {.own = {saved_counts(std::array{client_ ? client_->clock() : pushes_})}}; }

Result<void> ServedMode::restore(Replica&, std::span<const NamedTensor>, std::span<const NamedTensor> own) {
  const auto counts = restored_counts(own, 1);
  if (!counts) return counts.error();
  pushes_ = counts->front();
  return {};
}

Result<bool> ServedMode::train(Replica& replica, Progress& progress) {
  Client& client = *client_;
  const auto ended = [&](const Error& error) {
    client.abort(error);  // unless it is the group that has failed
    return error;
  };
  Passes passes(replica, {.batches = 1, .first_step = client.clock()});
  while (true) {
    if (client.halts()) {
      const auto end = rest(client, replica, progress);
      if (!end) return ended(end.error());
      if (*end) return **end;
    }
    const auto record = step(client, replica, passes);
    if (!record) return ended(record.error());
    if (auto told = progress.step_done(replica, *record); !told) return ended(told.error());
  }
}

}  // namespace weir::training::servers
