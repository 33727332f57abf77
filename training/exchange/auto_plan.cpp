#include "training/exchange/auto_plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/xxh3.hpp"
#include "protocol/exchange_plan.hpp"
#include "training/exchange/coding_probe.hpp"

namespace weir::training {
namespace {

/// Steps of a window that do not count: buffers grow, and the last plan's messages are still in the caches.
constexpr std::size_t skipped_steps = 2;
constexpr std::size_t trial_steps = 8;
constexpr std::size_t settled_steps = 64;
/// All is measured anew after so many windows.
constexpr std::uint64_t windows_max = 16;
/// Later, only plans that promise to take at most this part of the time of the one that is followed.
constexpr double worth_a_change = 0.95;
/// Slower by this factor in two windows one after the other: something has changed.
constexpr double much_slower = 1.25;
/// Of so many buckets ranks say about which one they do not agree; the others are compared together with the last.
constexpr std::size_t compared_buckets_max = protocol::ExchangePlan::buckets_max;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.3g ms", seconds * 1e3);
  return text.data();
}

}  // namespace

AutoPlan::AutoPlan(collectives::Fabric& fabric, const RoundSetting& setting, MakeCompression make_compression,
                   MeasureLinks measure_links, Now now)
    : fabric_(fabric),
      setting_(setting),
      make_compression_(std::move(make_compression)),
      measure_links_(std::move(measure_links)),
      now_(std::move(now)) {
  const auto traits = setting.compression.compressor->traits();
  situation_.ranks = setting.ranks;
  situation_.must_be_coded = traits.must_be_coded();
  situation_.may_be_rounded = !setting.compression.memory->traits().changes_mean;
  // What is only summed goes over any topology.
  const bool gathers = std::ranges::count(traits.passes, compressors::Reduction::gather) > 0;
  situation_.fits_owners = setting.owners > 0 || !gathers;
  situation_.by_hosts = setting.by_hosts;
  situation_.lanes = std::max(1U, fabric.lanes() - 1);
}

bool AutoPlan::warms_up(const Step& step) const {
  const auto length = setting_.compression.compressor->warmup_length(setting_.course);
  return step.epoch < length.epochs || step.number < length.rounds;
}

Result<bool> AutoPlan::start(const Step& step, std::span<const std::vector<Bucket>> layouts, std::size_t layout,
                             bool together) {
  layouts_.assign(layouts.begin(), layouts.end());
  kept_layout_ = layout;
  situation_.together = together;
  if (auto measured = measure(step); !measured) return measured.error();
  if (auto planned = plan_trials(); !planned) return planned.error();
  follow(0, step.number, "the fastest by the model");
  last_ = now_();
  return true;
}

Result<bool> AutoPlan::before(const Step& step, double waited_seconds) {
  const auto now = now_();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  if (measured_in_warmup_ && !warms_up(step)) {
    auto left = leave_warmup(step);
    last_ = now_();
    if (!left) return left.error();
    return true;
  }
  if (skipped_ < skipped_steps) {
    ++skipped_;
    return false;
  }
  steps_.push_back(seconds);
  computations_.push_back(seconds - waited_seconds);
  if (steps_.size() < (settled_ ? settled_steps : trial_steps)) return false;
  auto judged = judge(step);
  last_ = now_();
  if (!judged) return judged.error();
  return true;
}

/// The window is over.
Result<void> AutoPlan::judge(const Step& step) {
  std::array<float, 2> medians{static_cast<float>(median(steps_)), static_cast<float>(median(computations_))};
  steps_.clear();
  computations_.clear();
  if (auto agreed = agree_on_largest(fabric_, medians); !agreed) return agreed;
  const double seconds = medians[0];
  const bool first = situation_.compute_seconds == 0;
  situation_.compute_seconds = medians[1];
  Trial& trial = trials_[current_];
  if (!settled_) {
    trial.measured_seconds = seconds;
    if (first) {  // the length of the computation is known only now
      if (auto planned = plan_trials(); !planned) return planned;
    }
    const auto untried = std::ranges::find_if(trials_, [](const Trial& other) { return !other.measured_seconds; });
    if (untried != trials_.end()) {
      follow(static_cast<std::size_t>(untried - trials_.begin()), step.number, "on trial");
      return {};
    }
    std::vector<double> times;
    for (const Trial& tried : trials_) times.push_back(*tried.measured_seconds);
    const std::size_t best = best_tried(times);
    settled_ = true;
    windows_ = 0;
    slow_windows_ = 0;
    const std::string others = trials_.size() == 1 ? "the only one that the model found worth trying"
                                                   : "the fastest of " + std::to_string(trials_.size()) + " tried";
    kept_layout_ = trials_[best].plan.layout;
    follow(best, step.number, others + ": " + milliseconds(*trials_[best].measured_seconds) + " a step");
    return {};
  }
  ++windows_;
  slow_windows_ = seconds > much_slower * *trial.measured_seconds ? slow_windows_ + 1 : 0;
  if (slow_windows_ < 2 && windows_ < windows_max && !measured_in_warmup_) return {};
  const std::vector<Route> followed = trial.plan.routes;
  if (auto measured = measure(step); !measured) return measured;
  situation_.buckets = loads_of(parameters_, layouts_[kept_layout_]);
  const double predicted = predicted_seconds(situation_, followed);
  trials_.assign(1, Trial{.plan = {followed, predicted, kept_layout_}, .measured_seconds = seconds});
  current_ = 0;
  if (auto planned = plan_trials(); !planned) return planned;
  const double promised = worth_a_change * predicted;
  std::erase_if(trials_,
                [&](const Trial& other) { return !other.measured_seconds && other.plan.step_seconds > promised; });
  // Of plans that are about as fast as each other the first is followed (best_tried): the one that is followed already.
  std::ranges::stable_partition(trials_, [](const Trial& other) { return other.measured_seconds.has_value(); });
  settled_ = trials_.size() == 1;
  windows_ = 0;
  slow_windows_ = 0;
  if (settled_) return {};
  const auto untried = std::ranges::find_if(trials_, [](const Trial& other) { return !other.measured_seconds; });
  follow(static_cast<std::size_t>(untried - trials_.begin()), step.number, "on trial, after measuring again");
  return {};
}

/// What was measured in the warm-up says nothing about the steps after it.
Result<void> AutoPlan::leave_warmup(const Step& step) {
  steps_.clear();
  computations_.clear();
  trials_.clear();
  settled_ = false;
  if (auto measured = measure(step); !measured) return measured;
  if (auto planned = plan_trials(); !planned) return planned;
  follow(0, step.number, "the fastest by the model now that the warm-up is over");
  return {};
}

/// What the plans depend on, the same numbers on all ranks.
Result<void> AutoPlan::measure(const Step& step) {
  measured_in_warmup_ = warms_up(step);
  auto links = measure_links_(fabric_);
  if (!links) return links.error();
  situation_.links = links->links;
  situation_.hosts = links->hosts;
  auto compression = make_compression_();
  if (!compression) return compression.error();
  auto loads = measure_coding(*compression, setting_.parameters, setting_.round(step, 0));
  if (!loads) return loads.error();
  // A rank has its share of the host's cores, and half of these for the codec thread.
  const collectives::Communicator& group = fabric_.lane(0);
  std::uint32_t neighbours = 0;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    if (group.host_of(rank) == group.host_of(group.rank())) ++neighbours;
  }
  const bool shares_cores = std::thread::hardware_concurrency() < 2 * neighbours;
  std::vector<float> numbers{static_cast<float>(measure_copy()), shares_cores ? 1.0F : 0.0F};
  for (const BucketLoad& load : *loads) {
    for (const CodedLoad* way : {&load.by_all, &load.by_owners}) {
      numbers.push_back(static_cast<float>(way->encode_seconds));
      numbers.push_back(static_cast<float>(way->decode_seconds));
      for (const PassLoad& pass : way->passes) numbers.push_back(static_cast<float>(pass.bytes));
    }
  }
  if (auto agreed = agree_on_largest(fabric_, numbers); !agreed) return agreed;
  auto next = numbers.begin();
  situation_.dense_seconds_per_byte = *next++;
  situation_.own_cores = *next++ == 0;
  for (BucketLoad& load : *loads) {
    for (CodedLoad* way : {&load.by_all, &load.by_owners}) {
      way->encode_seconds = *next++;
      way->decode_seconds = *next++;
      for (PassLoad& pass : way->passes) pass.bytes = *next++;
    }
  }
  parameters_ = std::move(*loads);
  return {};
}

/// Makes a list of what to try, in which the plans that have been tried keep their times. The same on all ranks.
Result<void> AutoPlan::plan_trials() {
  std::vector<Trial> tried;
  for (Trial& trial : trials_) {
    if (trial.measured_seconds) tried.push_back(std::move(trial));
  }
  trials_.clear();
  for (const Plan& plan : plans_to_try(situation_, parameters_, layouts_, kept_layout_)) {
    const auto known = std::ranges::find(tried, plan, &Trial::plan);
    trials_.push_back({plan, known == tried.end() ? std::nullopt : known->measured_seconds});
    if (known != tried.end()) tried.erase(known);
  }
  for (Trial& trial : tried) trials_.push_back(std::move(trial));
  return expect_equal(fabric_, compared_plans());
}

/// The plans bucket by bucket, so that ranks that do not have the same can say about which one.
std::vector<Compared> AutoPlan::compared_plans() const {
  const std::string what = "plans of the exchange for bucket ";
  std::vector<Compared> buckets;
  for (const auto& layout : layouts_) {  // whichever of them the plans have: so many on all ranks
    for (std::size_t b = buckets.size(); b < std::min(layout.size(), compared_buckets_max); ++b) {
      buckets.push_back({.what = what + std::to_string(b), .hash = layouts_.size()});
    }
  }
  for (const Trial& trial : trials_) {
    for (Compared& bucket : buckets) {
      bucket.hash = XXH3_64bits_withSeed(&trial.plan.layout, sizeof trial.plan.layout, *bucket.hash);
    }
    for (std::size_t b = 0; b < trial.plan.routes.size(); ++b) {
      const auto& [form, topology, by_owners] = trial.plan.routes[b];
      const std::array<std::uint64_t, 4> route{b, static_cast<std::uint64_t>(form), topology, by_owners};
      Compared& bucket = buckets[std::min(b, compared_buckets_max - 1)];
      bucket.hash = XXH3_64bits_withSeed(route.data(), sizeof route, *bucket.hash);
    }
  }
  if (buckets.size() == compared_buckets_max) buckets.back().what += " and those after it";
  return buckets;
}

void AutoPlan::follow(std::size_t trial, std::uint64_t step, std::string reason) {
  current_ = trial;
  skipped_ = 0;
  new_ = true;
  since_step_ = step;
  reason_ = std::move(reason);
}

protocol::ExchangePlan AutoPlan::describe() const {
  protocol::ExchangePlan plan = training::describe(routes(), layouts_[layout()], setting_.parameters);
  plan.step = since_step_;
  plan.reason = reason_;
  plan.latency_seconds = situation_.links.latency_seconds;
  const double per_byte = situation_.links.seconds_per_byte;
  plan.bytes_per_second = per_byte > 0 ? 1 / per_byte : 0;
  for (const Trial& trial : trials_) {
    if (plan.candidates.size() == protocol::ExchangePlan::candidates_max) break;
    const auto candidate = training::describe(trial.plan.routes, layouts_[trial.plan.layout], setting_.parameters);
    plan.candidates.push_back({.routes = protocol::to_string(protocol::routes_of(candidate)),
                               .predicted_seconds = trial.plan.step_seconds,
                               .measured_seconds = trial.measured_seconds,
                               .followed = &trial == &trials_[current_]});
  }
  return plan;
}

protocol::ExchangePlan describe(std::span<const Route> routes, std::span<const Bucket> buckets,
                                std::span<const compressors::NamedTensor> parameters) {
  protocol::ExchangePlan plan;
  for (std::size_t b = 0; b < std::min(buckets.size(), protocol::ExchangePlan::buckets_max); ++b) {
    std::uint64_t bytes = 0;
    for (const auto p : buckets[b].parameters) bytes += parameters[p].tensor.nbytes();
    plan.buckets.push_back({.form = std::string(name_of(routes[b].form)),
                            .topology = std::string(topology_of(routes[b])),
                            .bytes = bytes});
  }
  return plan;
}

}  // namespace weir::training
