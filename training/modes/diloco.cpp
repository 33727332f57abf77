#include "training/modes/diloco.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "training/counts.hpp"
#include "training/exchange/stopwatch.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"

namespace weir::training {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view momentum_prefix = "outer_momentum.";

}  // namespace

/// The common model, its momentum, and how often and when its tensors were exchanged.
struct DiLoCo::Outer {
  explicit Outer(const Replica& replica)
      : common(replica.exchanged_tensors()), exchanges(common.all().size()), last_begun(common.all().size()) {
    for (const auto& parameter : replica.model->parameters()) momenta.push_back(at::zeros_like(parameter.tensor));
  }

  /// Applies the mean of what the ranks' tensors differ from the common one by. For a parameter that is a step that
  /// leads downhill; statistics, which come behind the parameters, have nowhere to go but to their mean. Momentum is
  /// what a whole period has: after a part of one, or of no step at all, it would lead far beyond what was learned.
  void step(std::uint32_t tensor, const at::Tensor& difference, const Options& options, bool whole_period) {
    if (tensor >= momenta.size()) return common.add(tensor, difference);
    if (options.outer_momentum == 0 || !whole_period) return common.add(tensor, difference, options.outer_lr);
    const at::NoGradGuard no_grad;
    at::Tensor& momentum = momenta[tensor];
    momentum.mul_(options.outer_momentum).add_(difference);
    common.add(tensor, difference.add(momentum, options.outer_momentum), options.outer_lr);
  }

  /// Whether an exchange of a tensor that is due when so many steps are done has a period behind it. The first one of a
  /// training counts as such, which comes earlier for some fragments: there is no momentum yet that could lead too far.
  bool has_period_behind(std::uint32_t tensor, std::uint64_t steps, const Options& options) const {
    return exchanges[tensor] == 0 || last_begun[tensor] + static_cast<std::uint64_t>(options.period) <= steps;
  }

  std::vector<NamedTensor> momentum() const {
    std::vector<NamedTensor> named;
    const auto tensors = common.tensors();
    for (std::size_t i = 0; i < momenta.size(); ++i) {
      named.push_back({std::string(momentum_prefix) + tensors[i].name, momenta[i]});
    }
    return named;
  }

  CommonModel common;
  std::vector<at::Tensor> momenta;        ///< by parameter
  std::vector<std::uint64_t> exchanges;   ///< of the whole training so far, by exchanged tensor: its parts may change
  std::vector<std::uint64_t> last_begun;  ///< the steps that were done when the last one of these began
};

/// The exchanges of one call of train().
class DiLoCo::Training {
 public:
  Training(const Options& options, Outer& outer, Replica& replica)
      : options_(options), outer_(outer), replica_(replica), exchange_(*replica.exchange) {
    const auto groups = replica.mode->groups(replica.exchanged_tensors());
    for (std::uint32_t i = 0; i < groups.size(); ++i) {
      fragments_.resize(std::max<std::size_t>(fragments_.size(), groups[i] + 1));
      fragments_[groups[i]].push_back(i);
    }
    samples_.resize(fragments_.size());
  }

  std::uint32_t fragments() const { return static_cast<std::uint32_t>(fragments_.size()); }

  /// This rank has made a step with so many examples.
  void count(std::uint64_t samples) {
    for (auto& of_fragment : samples_) of_fragment += samples;
    ++local_steps_;
  }

  /// `due`: the exchange comes in its turn, and not because the training ends.
  Result<void> begin(std::uint32_t fragment, Step step, std::uint64_t steps_done, bool due) {
    if (auto followed = outer_.common.follow(replica_.exchanged_tensors()); !followed) return followed;
    for (const auto i : fragments_[fragment]) step.number = std::max(step.number, outer_.exchanges[i]);
    under_way_ = {fragment, step.number, steps_done, due};
    step.samples = std::exchange(samples_[fragment], 0);
    exchange_.begin(step, fragment);
    outer_.common.give(exchange_, fragments_[fragment]);
    return {};
  }

  /// Whether an exchange ends when so many steps are done.
  bool ends_after(std::uint64_t steps) const {
    return under_way_ && under_way_->begun + static_cast<std::uint64_t>(options_.delay) == steps;
  }
  bool under_way() const { return under_way_.has_value(); }

  /// Ends the exchange that is under way when so many steps are done. Adds up the times and the votes.
  Result<void> end(std::uint64_t steps, StepRecord& record) {
    const auto agreed = exchange_.finish();
    if (!agreed) return agreed.error();
    if (auto followed = outer_.common.follow(replica_.exchanged_tensors()); !followed) return followed;
    const double kept = under_way_->begun < steps ? options_.merge : 0;
    for (const auto i : fragments_[under_way_->fragment]) {
      const bool whole_period = under_way_->due && outer_.has_period_behind(i, under_way_->begun, options_);
      outer_.step(i, exchange_.means()[i].tensor, options_, whole_period);
      outer_.common.adopt(i, kept);
      outer_.exchanges[i] = under_way_->number + 1;
      outer_.last_begun[i] = under_way_->begun;
    }
    under_way_.reset();
    votes_ += agreed->votes;
    record.exchanged = record.settled = true;
    record.local_steps += std::exchange(local_steps_, 0);
    record.times.encode += agreed->times.encode;
    record.times.exchange += agreed->times.exchange;
    record.times.decode += agreed->times.decode;
    record.times.wait += agreed->times.wait;
    return {};
  }

  /// Whether a rank has voted to stop in an exchange that has ended.
  bool stops() const { return votes_ > 0; }

 private:
  struct UnderWay {
    std::uint32_t fragment = 0;
    std::uint64_t number = 0;
    std::uint64_t begun = 0;  ///< when so many steps were done
    bool due = true;
  };

  const Options& options_;
  Outer& outer_;
  const Replica& replica_;
  Exchange& exchange_;
  std::vector<std::vector<std::uint32_t>> fragments_;  ///< their tensors
  std::vector<std::uint64_t> samples_;                 ///< by fragment: since its last exchange
  std::uint64_t local_steps_ = 0;                      ///< since the last exchange has ended
  std::optional<UnderWay> under_way_;
  float votes_ = 0;
};

protocol::Params<DiLoCo::Options> DiLoCo::params() {
  return protocol::Params<Options>()
      .integer("period", &Options::period, {.minimum = 1, .maximum = 1'000'000},
               "Steps that a worker makes by itself between two exchanges of the same tensor.")
      .number("outer_lr", &Options::outer_lr, {.exclusive_minimum = 0, .maximum = 10},
              "Learning rate of the optimizer that applies the mean difference.")
      .number("outer_momentum", &Options::outer_momentum, {.minimum = 0, .exclusive_maximum = 1},
              "Its Nesterov momentum.")
      .integer("fragments", &Options::fragments, {.minimum = 1, .maximum = 1024},
               "Parts of the model that are exchanged one after the other within a period; at most one per tensor.")
      .integer("delay", &Options::delay, {.minimum = 0, .maximum = 1'000'000},
               "Steps after which the result of an exchange is applied; training goes on meanwhile.")
      .number("merge", &Options::merge, {.minimum = 0, .exclusive_maximum = 1},
              "With a delay: share of what its parameters differ from the common ones by that a worker keeps.")
      .at_most("fragments", "period")
      .only_where("merge", "delay", {{"minimum", 1}});
}

Result<std::unique_ptr<Mode>> DiLoCo::make(Options options) {
  const auto refuse = [](const std::string& what) { return Error{Errc::invalid_argument, "training.params." + what}; };
  const std::int64_t between = options.period / options.fragments;
  if (options.delay >= between) {
    return refuse("delay must be less than period / fragments, " + std::to_string(between) +
                  " steps, after which the next exchange begins");
  }
  return std::make_unique<DiLoCo>(options);
}

DiLoCo::DiLoCo(Options options) : options_(options) {}
DiLoCo::~DiLoCo() = default;

Result<void> DiLoCo::join(Replica& replica, collectives::Fabric& fabric) {
  if (!outer_) outer_ = std::make_unique<Outer>(replica);
  return Mode::join(replica, fabric);
}

/// Consecutive tensors, so that each fragment has about as many entries, and at least one tensor as long as there are
/// enough.
std::vector<std::uint32_t> DiLoCo::groups(std::span<const NamedTensor> tensors) const {
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(options_.fragments), tensors.size());
  std::int64_t total = 0;
  for (const auto& one : tensors) total += one.tensor.numel();
  std::vector<std::uint32_t> groups;
  std::size_t group = 0;
  std::size_t in_group = 0;
  std::int64_t entries = 0;  // of all tensors so far
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto of_group = [&] {
      return static_cast<std::int64_t>(group + 1) * total / static_cast<std::int64_t>(count);
    };
    const std::size_t others = count - 1 - group;  // fragments that have no tensor yet
    const bool full = entries + tensors[i].tensor.numel() / 2 >= of_group();
    if (others > 0 && in_group > 0 && (full || tensors.size() - i == others)) {
      ++group;
      in_group = 0;
    }
    groups.push_back(static_cast<std::uint32_t>(group));
    ++in_group;
    entries += tensors[i].tensor.numel();
  }
  return groups;
}

/// When so many steps are done, fragment `fragment` is exchanged for the first time.
std::uint64_t DiLoCo::first_exchange(std::uint32_t fragment) const {
  const auto period = static_cast<std::uint64_t>(options_.period);
  return fragment == 0 ? period : period * fragment / static_cast<std::uint64_t>(options_.fragments);
}

/// The fragment whose exchange begins when so many steps are done.
std::optional<std::uint32_t> DiLoCo::due_after(std::uint64_t steps) const {
  for (std::uint32_t fragment = 0; fragment < static_cast<std::uint32_t>(options_.fragments); ++fragment) {
    const std::uint64_t first = first_exchange(fragment);
    if (steps >= first && (steps - first) % static_cast<std::uint64_t>(options_.period) == 0) return fragment;
  }
  return std::nullopt;
}

Result<bool> DiLoCo::train(Replica& replica, Progress& progress) {
  Passes passes(replica, Passes::all_steps(replica));
  Training exchanges(options_, *outer_, replica);
  while (replica.step < replica.length.steps_total) {
    const auto start = Clock::now();
    const double epoch = replica.epoch();
    const auto loss = own_step(replica, passes);
    if (!loss) return loss.error();
    const std::uint64_t done = replica.step;

    StepRecord record{.step = done,
                      .rounds = std::ranges::min(outer_->exchanges),
                      .loss = *loss,
                      .samples = replica.spec.training.samples_per_step(),
                      .exchanged = false,
                      .settled = false,
                      .dense_bytes = replica.exchange->dense_bytes_per_step()};
    exchanges.count(record.samples);
    const bool last = done == replica.length.steps_total;
    const auto due = due_after(done);
    const auto begin = [&](std::uint32_t fragment) {
      return exchanges.begin(fragment,
                             {.epoch = epoch,
                              .learning_rate = options_.outer_lr,
                              .vote = progress.stop_wanted() ? 1.0F : 0.0F,
                              .begin = start},
                             done, due == fragment);
    };
    if (exchanges.ends_after(done) || (last && exchanges.under_way())) {
      if (auto ended = exchanges.end(done, record); !ended) return ended.error();
    }
    if (last) {
      for (std::uint32_t fragment = 0; fragment < exchanges.fragments(); ++fragment) {
        if (auto begun = begin(fragment); !begun) return begun.error();
        if (auto ended = exchanges.end(done, record); !ended) return ended.error();
      }
    } else if (due && *due < exchanges.fragments()) {
      if (auto begun = begin(*due); !begun) return begun.error();
      if (options_.delay == 0) {
        if (auto ended = exchanges.end(done, record); !ended) return ended.error();
      }
    }
    record.seconds = seconds_since(start);
    record.compute_seconds = record.seconds - record.times.wait;
    if (auto told = progress.step_done(replica, record); !told) return told.error();
    if (exchanges.stops()) return last;
  }
  return true;
}

ModeState DiLoCo::save() const {
  ModeState state;
  if (!outer_) return state;
  state.model = outer_->common.tensors();
  if (options_.outer_momentum != 0) state.common = outer_->momentum();
  auto counts = outer_->exchanges;
  counts.insert(counts.end(), outer_->last_begun.begin(), outer_->last_begun.end());
  counts.push_back(static_cast<std::uint64_t>(options_.period));
  state.common.push_back(saved_counts(counts));
  return state;
}

Result<void> DiLoCo::restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own) {
  outer_ = std::make_unique<Outer>(replica);
  const std::size_t tensors = outer_->exchanges.size();
  const auto counts = restored_counts(common, 2 * tensors + 1);
  if (!counts) return counts.error();
  const std::span numbers(*counts);
  std::ranges::copy(numbers.first(tensors), outer_->exchanges.begin());
  std::ranges::copy(numbers.subspan(tensors, tensors), outer_->last_begun.begin());
  const auto period_before = static_cast<double>(numbers.back());
  std::vector<NamedTensor> momentum;
  std::ranges::copy_if(common, std::back_inserter(momentum),
                       [](const NamedTensor& saved) { return saved.name.starts_with(momentum_prefix); });
  const auto expected = outer_->momentum();
  const auto fits = [&] {
    return std::ranges::is_permutation(momentum, expected, [](const NamedTensor& saved, const NamedTensor& live) {
      return saved.name == live.name && saved.tensor.dtype() == live.tensor.dtype() &&
             saved.tensor.sizes() == live.tensor.sizes();
    });
  };
  // A job may begin to have an outer momentum where the one before had none: it begins at zero.
  if (!own.empty() || (!momentum.empty() && !fits())) {
    return Error{Errc::malformed, "the checkpoint's outer momentum is not that of this model"};
  }
  // It is as large as the way of a period, and would lead too far with shorter ones.
  const double share = std::min(1.0, static_cast<double>(options_.period) / period_before);
  for (const auto& saved : momentum) {
    const auto live = std::ranges::find(expected, saved.name, &NamedTensor::name);
    at::Tensor(live->tensor).copy_(saved.tensor).mul_(share);
  }
  return {};
}

}  // namespace weir::training
