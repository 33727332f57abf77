#include "compressors/sparsifiers/sidco.hpp"

#include <ATen/ops/tensor.h>
#include <math.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/errc.hpp"
#include "compressors/kernels/selection/exceedances.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/codec_params.hpp"

namespace weir::compressors {
namespace {

/// With fewer exceedances than this, no fit is made.
constexpr std::size_t exceedances_min = 32;
constexpr std::size_t sampled_from = std::size_t{1} << 18;
constexpr std::size_t run = 16;  // entries: one cache line

/// What is sampled of so many values, at least one.
SampledRuns runs_among(std::size_t values) {
  if (values <= sampled_from) return {.length = values, .distance = values, .count = 1};
  // With an odd distance, the sample meets every part of a matrix whose width is a power of two.
  const std::size_t distance = run * (values / sampled_from | 1);
  return {.length = run, .distance = distance, .count = (values - run) / distance + 1};
}

double exponential_excess(const Excess& excess, double ratio) { return -excess.mean * std::log(ratio); }

double pareto_excess(const Excess& excess, double ratio) {
  const double mean_square = excess.mean * excess.mean;
  if (excess.variance <= 1e-12 * mean_square) return exponential_excess(excess, ratio);
  const double shape = 0.5 * (1 - mean_square / excess.variance);
  const double scale = 0.5 * excess.mean * (mean_square / excess.variance + 1);
  if (std::abs(shape) < 1e-9) return -scale * std::log(ratio);
  return scale / shape * (std::exp(-shape * std::log(ratio)) - 1);
}

/// `magnitudes` are all positive.
double gamma_threshold(std::span<const float> magnitudes, double ratio) {
  const double mean = excess_of(magnitudes, 0).mean;
  const double spread = std::log(mean) - mean_log(magnitudes);
  if (!(spread > 1e-9)) return mean;
  const double shape = (3 - spread + std::sqrt((spread - 3) * (spread - 3) + 24 * spread)) / (12 * spread);
  int sign = 1;
  return std::max(0.0, -mean / shape * (std::log(ratio) + ::lgamma_r(shape, &sign)));
}

std::string state_name(std::uint32_t tensor) { return "stages." + std::to_string(tensor); }

std::optional<std::uint32_t> tensor_of(std::string_view name) {
  constexpr std::string_view prefix = "stages.";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint32_t tensor = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), tensor);
  if (failure != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return tensor;
}

}  // namespace

protocol::Params<Sidco::Options> Sidco::params() {
  return with_codecs(
      protocol::Params<Options>()
          .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
                  "Share of the entries that is sent, about.")
          .choice("distribution", &Options::distribution, {"exponential", "gamma", "pareto"},
                  "What is fitted to the magnitudes.")
          .number("first_ratio", &Options::first_ratio, {.minimum = 0.01, .maximum = 0.9},
                  "Share of what it fits that each stage but the last aims at.")
          .integer("adapt_every", &Options::adapt_every, {.minimum = 1.0, .maximum = 1000.0},
                   "Rounds between two looks at the number of stages.")
          .number("tolerance", &Options::tolerance, {.exclusive_minimum = 0.0, .maximum = 1.0},
                  "How far, relatively, the number of entries sent may be off before the stages change."));
}

double Sidco::error_bound(std::uint64_t entries, const Round&) const {
  // However badly the distribution fits, the largest entry is sent.
  return entries == 0 ? 0 : bound_for_share(1 / static_cast<double>(entries));
}

std::int64_t Sidco::stages_max() const {
  std::int64_t stages = 1;
  for (double left = options_.ratio; left < options_.first_ratio; ++stages) {
    const double next = left / options_.first_ratio;
    if (!(next > left)) break;  // the smallest numbers have too few digits to become larger
    left = next;
  }
  return stages;
}

Result<void> Sidco::choose(const Values& values, const Round& round, Selection& out) {
  Stages& stages = stages_.of(round);
  stages.count = std::clamp<std::int64_t>(stages.count, 1, stages_max());
  if (auto done = collect(values, stages.count, out); !done) return done;
  // NaN and infinity compare larger than any number, so if there is one, it was chosen.
  if (find_non_finite(out.values) != out.size()) return non_finite(round, values.first_non_finite());
  const std::size_t kept = entries_kept(options_.ratio, values.size());
  adapt(stages, static_cast<double>(out.size()) / static_cast<double>(kept));
  // The threshold of more stages is closer to the actual distribution.
  if (out.size() > 0) return {};
  if (auto done = collect(values, stages_max(), out); !done || out.size() > 0) return done;
  return values.select_largest(kept, out);
}

Result<void> Sidco::collect(const Values& values, std::int64_t stages, Selection& out) {
  constexpr double largest = std::numeric_limits<float>::max();
  const auto least = threshold(values, stages);
  if (!least) return least.error();
  const float floor = std::isfinite(*least) ? static_cast<float>(std::clamp(*least, 0.0, largest)) : 0.0F;
  const auto done = values.collect(std::max(magnitude(floor), 1U), values.size(), out);
  return done ? Result<void>() : done.error();
}

Result<double> Sidco::threshold(const Values& values, std::int64_t stages) {
  if (auto done = values.sample_magnitudes(runs_among(values.size()), sample_); !done) return done.error();
  std::span<float> exceedances = sample_;
  double ratio = options_.ratio;
  double least = 0;
  for (std::int64_t stage = 1; !exceedances.empty(); ++stage) {
    const bool gamma = stage == 1 && options_.distribution == "gamma";
    if (gamma) {  // the gamma distribution has no zeros
      const std::size_t positive = keep_above(0, exceedances);
      if (positive == 0) return 0.0;
      ratio = std::min(1.0, ratio * static_cast<double>(exceedances.size()) / static_cast<double>(positive));
      exceedances = exceedances.first(positive);
    }
    const auto floor = static_cast<float>(least);
    const Excess excess = excess_of(exceedances, floor);
    if (!std::isfinite(excess.mean)) return excess.mean;
    const auto next = [&](double share) {
      if (gamma) return gamma_threshold(exceedances, share);
      return least + (options_.distribution == "exponential" ? exponential_excess(excess, share)
                                                             : pareto_excess(excess, share));
    };
    if (stage == stages || ratio >= options_.first_ratio) return next(ratio);
    constexpr double largest = std::numeric_limits<float>::max();
    const auto first = static_cast<float>(std::min(next(options_.first_ratio), largest));
    const std::size_t above = count_above(first, exceedances);
    // The remaining ratio refers to the entries that really exceed the threshold, so the errors of the stages do not
    // add up.
    const double left = ratio * static_cast<double>(exceedances.size()) / static_cast<double>(above);
    if (above < exceedances_min || left >= 1) return next(ratio);
    exceedances = exceedances.first(keep_above(first, exceedances));
    least = first;
    ratio = left;
  }
  return least;
}

void Sidco::adapt(Stages& stages, double achieved) const {
  stages.achieved += achieved;
  if (++stages.rounds < options_.adapt_every) return;
  const double mean = stages.achieved / static_cast<double>(stages.rounds);
  stages.rounds = 0;
  stages.achieved = 0;
  if (mean >= 1 - options_.tolerance && mean <= 1 + options_.tolerance) return;
  const double distance = std::abs(std::log(std::max(mean, 1e-6)));
  // Clearly farther from the target than before the last change, so that change went in the wrong direction.
  if (stages.distance > 0 && distance > 1.1 * stages.distance) stages.direction = -stages.direction;
  const auto next = std::clamp<std::int64_t>(stages.count + stages.direction, 1, stages_max());
  // With the fewest or the most stages nothing lies that way: what comes is still measured by the last change.
  if (next == stages.count) return;
  stages.distance = distance;
  stages.count = next;
}

std::vector<NamedTensor> Sidco::save() const {
  std::vector<NamedTensor> state;
  for (const auto& [tensor, it] : stages_.all()) {
    const std::vector<double> numbers = {static_cast<double>(it.count), static_cast<double>(it.direction),
                                         static_cast<double>(it.rounds), it.achieved, it.distance};
    state.push_back({state_name(tensor), at::tensor(numbers, at::kDouble)});
  }
  return state;
}

Result<void> Sidco::restore(std::span<const NamedTensor> state) {
  std::map<std::uint32_t, Stages> restored;
  for (const NamedTensor& it : state) {
    const auto tensor = tensor_of(it.name);
    if (!tensor || !it.tensor.defined() || it.tensor.scalar_type() != at::kDouble || it.tensor.numel() != 5) {
      return Error(Errc::malformed, "saved state '" + it.name + "' is not of sidco");
    }
    const at::Tensor numbers = it.tensor.contiguous();
    const double* at = numbers.data_ptr<double>();
    const bool sound = at[0] >= 1 && at[0] <= static_cast<double>(stages_max()) && std::abs(at[1]) == 1 && at[2] >= 0 &&
                       at[2] < static_cast<double>(options_.adapt_every) && std::isfinite(at[3]) && at[3] >= 0 &&
                       std::isfinite(at[4]) && at[4] >= 0;
    if (!sound) return Error(Errc::malformed, "saved state '" + it.name + "' is not what sidco saves");
    restored[*tensor] = {static_cast<std::int64_t>(at[0]), static_cast<std::int64_t>(at[1]),
                         static_cast<std::int64_t>(at[2]), at[3], at[4]};
  }
  stages_.replace(std::move(restored));
  return {};
}

}  // namespace weir::compressors
