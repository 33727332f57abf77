#include "training/modes/esync.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/counts.hpp"
#include "training/exchange/agreement.hpp"
#include "training/modes/common_model.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {
namespace {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Sums {
  std::uint64_t steps = 0;
  double weights = 0;
};

/// Over the workers. That of the steps is exact, although floats are added up: in two parts that stay below 2^24.
Result<Sums> sums_over(collectives::Fabric& workers, std::uint64_t steps, double weight) {
  constexpr std::uint64_t base = 4096;
  std::array parts{static_cast<float>(steps % base), static_cast<float>(steps / base), static_cast<float>(weight)};
  if (auto added = add_up(workers, parts); !added) return added.error();
  return Sums{.steps = static_cast<std::uint64_t>(parts[0]) + base * static_cast<std::uint64_t>(parts[1]),
              .weights = parts[2]};
}

}  // namespace

/// One call of train().
class ESync::Training {
 public:
  Training(ESync& mode, Replica& replica)
      : mode_(mode),
        counts_(mode.counts_),
        replica_(replica),
        common_(replica.exchanged_tensors()),
        passes_(replica, {.batches = 1, .first_step = counts_.steps_of_own}),
        rate_(mode.options_.local_lr.value_or(replica.learning_rate)),
        parameters_(replica.model->parameters().size()) {}

  /// All local steps until an exchange, and this. Returns whether a worker wants to stop.
  Result<bool> round(Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const double begun = mode_.now_();
    const double epoch = replica_.epoch();
    auto record = local_steps();
    if (!record) return record.error();
    const bool wants_to_stop = progress.stop_wanted();
    const auto agreed = exchange(*record, {.number = counts_.rounds,
                                           .epoch = epoch,
                                           .learning_rate = 1,  // the optimizers have applied theirs
                                           .vote = wants_to_stop ? 1.0F : 0.0F,
                                           .samples = record->samples,
                                           .share = share_,
                                           .begin = start});
    if (!agreed) return agreed.error();
    record->times.wait += waited_;
    record->seconds = mode_.now_() - begun;
    record->compute_seconds = record->seconds - record->times.wait;
    if (auto told = progress.step_done(replica_, *record); !told) return told.error();
    return agreed->votes > 0;
  }

 private:
  std::uint64_t all_steps() const { return replica_.length.steps_total * replica_.world; }
  std::uint64_t left() const { return all_steps() - std::min(all_steps(), counts_.steps_of_all); }

  /// As many as the state server grants.
  Result<StepRecord> local_steps() {
    WorkerState state{.round = round_,
                      .encode_seconds = encode_seconds_,
                      .link_seconds = link_seconds_,
                      .share = share_,
                      .left = left()};
    const double rate = rate_ * replica_.schedule->factor(replica_.step);
    double losses = 0;
    waited_ = 0;
    while (true) {
      const double asked = mode_.now_();
      const auto grant = mode_.grants_->more(state, replica_.step);
      if (!grant) return grant.error();
      if (grant->steps > std::max<std::uint64_t>(left(), 1)) {
        return Error{Errc::malformed, "the state server grants " + std::to_string(grant->steps) + " steps where " +
                                          std::to_string(left()) + " are left"};
      }
      const double answered = mode_.now_();
      waited_ += answered - asked;
      if (mode_.options_.adapt_compression && state.steps == 0) next_share_ = grant->share;
      if (grant->steps == 0) break;
      for (std::uint64_t i = 0; i < grant->steps; ++i) {
        const auto loss = own_step(replica_, passes_, rate);
        if (!loss) return loss.error();
        losses += *loss;
      }
      state.steps += grant->steps;
      state.step_seconds = (mode_.now_() - answered) / static_cast<double>(grant->steps);
    }
    share_ = next_share_;
    if (state.steps == 0) return Error{Errc::malformed, "the state server grants no step in a round"};
    counts_.steps_of_own += state.steps;
    return StepRecord{.rounds = counts_.rounds,
                      .loss = losses / static_cast<double>(state.steps),
                      .samples = state.steps * replica_.spec.training.samples_per_step(),
                      .local_steps = state.steps};
  }

  Result<Exchange::Agreed> exchange(StepRecord& record, const Step& step) {
    Exchange& exchange = *replica_.exchange;
    const double weight = std::pow(static_cast<double>(record.local_steps), mode_.options_.normalization);
    const double asked = mode_.now_();
    const auto sums = sums_over(replica_.workers(), record.local_steps, weight);
    if (!sums) return sums.error();
    waited_ += mode_.now_() - asked;
    if (sums->steps > std::max<std::uint64_t>(left(), replica_.world)) {
      return Error{Errc::malformed, "the workers have made " + std::to_string(sums->steps) + " local steps where " +
                                        std::to_string(left()) + " were left"};
    }
    // What the compressor leaves for a later round, where other numbers of steps are made, is in the model's unit then.
    const double rate = mode_.options_.global_lr * sums->weights / replica_.world;
    const auto sent_before = replica_.workers().traffic().sent_bytes;
    if (auto followed = common_.follow(replica_.exchanged_tensors()); !followed) return followed.error();
    exchange.begin(step);
    common_.give(exchange, common_.all().subspan(parameters_));
    common_.give(exchange, common_.all().first(parameters_), rate / weight);
    const auto agreed = exchange.finish();
    if (!agreed) return agreed.error();
    measure_exchange(agreed->times, replica_.workers().traffic().sent_bytes - sent_before);
    for (const auto i : common_.all()) {
      common_.add(i, exchange.means()[i].tensor);
      common_.adopt(i);
    }
    counts_.steps_of_all += sums->steps;
    ++counts_.rounds;
    ++round_;
    record.step = counts_.steps_of_all / replica_.world;
    record.steps = record.step - std::exchange(replica_.step, record.step);
    record.times = agreed->times;
    if (mode_.options_.adapt_compression) record.share = share_;
    record.dense_bytes = record.steps * exchange.dense_bytes_per_step();
    return agreed;
  }

  /// What an exchange takes of this worker's own time and of its link, however long it has waited for others.
  void measure_exchange(const Exchange::Times& times, std::uint64_t sent_bytes) {
    const double rate = mode_.grants_->link_bytes_per_second();
    encode_seconds_ = times.encode;
    link_seconds_ = rate > 0 ? static_cast<double>(sent_bytes) / rate : 0;
  }

  ESync& mode_;
  Counts& counts_;
  Replica& replica_;
  CommonModel common_;
  Passes passes_;
  const double rate_;
  const std::size_t parameters_;
  std::uint64_t round_ = 0;
  double waited_ = 0;  ///< in the round, beside its exchange
  double encode_seconds_ = 0;
  double link_seconds_ = 0;
  double share_ = 1;  ///< sent in the last exchange, or to be sent in the next
  double next_share_ = 1;
};

protocol::Params<ESync::Options> ESync::params() {
  return protocol::Params<Options>()
      .optional_number("local_lr", &Options::local_lr, {.exclusive_minimum = 0, .maximum = 1000},
                       "Learning rate of the workers' optimizers, in the place of theirs; null: theirs.")
      .number("global_lr", &Options::global_lr, {.exclusive_minimum = 0, .maximum = 10},
              "Share of the workers' mean difference that is added to the common model.")
      .number("normalization", &Options::normalization, {.minimum = 0, .maximum = 1},
              "Each worker's difference counts as divided by its local steps to this power: 0 as it is (ESync), 1 as "
              "per step (FedNova).")
      .flag("adapt_compression", &Options::adapt_compression,
            "Workers with slow links send fewer of the entries that their compressors choose.");
}

Result<void> ESync::check(const protocol::JobSpec&, std::uint32_t, const compressors::Compression& compression) const {
  if (!options_.adapt_compression || compression.compressor->traits().thins) return {};
  return Error{Errc::invalid_argument,
               "training.params.adapt_compression does not fit compressor \"" +
                   std::string(compression.compressor->name()) +
                   "\": what it sends of a tensor is not so many entries, of which a worker could send fewer"};
}

ESync::ESync(Options options, Instruments instruments)
    : options_(options),
      now_(instruments.now ? std::move(instruments.now) : monotonic_seconds),
      grants_(std::move(instruments.grants)) {}

Result<void> ESync::join(Replica& replica, collectives::Fabric& fabric) {
  if (counts_.steps_of_all / replica.world != replica.step) {
    return Error{Errc::malformed, "checkpoint: " + std::to_string(counts_.steps_of_all) + " local steps of " +
                                      std::to_string(replica.world) + " workers in step " +
                                      std::to_string(replica.step)};
  }
  if (!grants_) {
    ensure(replica.others == 1, "a state server behind the workers");
    auto client = std::make_unique<StateClient>(fabric, replica.world);
    if (options_.adapt_compression) {
      const double limit = replica.spec.training.conditions.link_bytes_per_second(replica.rank);
      auto measured = client->measure_link(replica.parameter_count() * sizeof(float), limit);
      if (!measured) return measured;
    }
    grants_ = std::move(client);
  }
  return Mode::join(replica, fabric);
}

Result<bool> ESync::train(Replica& replica, Progress& progress) {
  Training training(*this, replica);
  bool stops = false;
  while (!stops && replica.step < replica.length.steps_total) {
    const auto round = training.round(progress);
    if (!round) return round.error();
    stops = *round;
  }
  const bool finished = replica.step >= replica.length.steps_total;
  if (auto left = grants_->leave(replica.step, finished); !left) return left.error();
  return finished;
}

ModeState ESync::save() const {
  return {.common = {saved_counts(std::array{counts_.steps_of_all, counts_.rounds})},
          .own = {saved_counts(std::array{counts_.steps_of_own})}};
}

Result<void> ESync::restore(Replica&, std::span<const NamedTensor> common, std::span<const NamedTensor> own) {
  const auto of_all = restored_counts(common, 2);
  if (!of_all) return of_all.error();
  const auto of_own = restored_counts(own, 1);
  if (!of_own) return of_own.error();
  counts_ = {.steps_of_all = (*of_all)[0], .rounds = (*of_all)[1], .steps_of_own = (*of_own)[0]};
  return {};
}

}  // namespace weir::training
