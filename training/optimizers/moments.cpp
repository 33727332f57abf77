#include "training/optimizers/moments.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

constexpr std::string_view steps_name = "steps";
constexpr std::string_view first_prefix = "first.";
constexpr std::string_view second_prefix = "second.";

/// The saved tensor of a parameter, if there is one that fits it.
const NamedTensor* saved_of(std::span<const NamedTensor> state, std::string_view prefix, const NamedTensor& parameter) {
  const auto found = std::ranges::find(state, std::string(prefix) + parameter.name, &NamedTensor::name);
  const bool fits = found != state.end() && found->tensor.sizes() == parameter.tensor.sizes() &&
                    found->tensor.scalar_type() == parameter.tensor.scalar_type();
  return fits ? &*found : nullptr;
}

}  // namespace

Moments::Moments(const Options& options, OptimizerSetting setting)
    : options_(options),
      setting_(std::move(setting)),
      rules_(rules_of(setting_, options_.groups, options_.weight_decay, options_.no_decay)),
      first_(setting_.parameters.size()),
      second_(setting_.parameters.size()) {}

void Moments::begin_step(std::span<const Mean> means) {
  ensure(means.size() == setting_.parameters.size(), "one mean per parameter");
  ++steps_;
}

Moments::Turn Moments::turn_of(std::size_t parameter, const Mean& mean) const {
  return {parameter, setting_.parameters[parameter].tensor.view({-1}), mean.tensor.view({-1}), rules_[parameter]};
}

Moments::Direction Moments::add(const Slice& slice) {
  const at::Tensor& gradient = slice.gradient;
  auto& all_first = first_[slice.parameter];
  auto& all_second = second_[slice.parameter];
  if (!all_first.defined()) {
    const at::Tensor& like = setting_.parameters[slice.parameter].tensor;
    all_first = at::zeros_like(like, at::MemoryFormat::Contiguous);
    all_second = at::zeros_like(like, at::MemoryFormat::Contiguous);
  }
  auto first = all_first.view({-1}).narrow(0, slice.begin, gradient.numel());
  auto second = all_second.view({-1}).narrow(0, slice.begin, gradient.numel());
  first.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
  second.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
  const auto done = static_cast<double>(steps_);
  const double second_divisor = 1 - std::pow(options_.beta2, done);
  auto denominator = second.sqrt().div_(std::sqrt(second_divisor)).add_(options_.epsilon);
  return {std::move(first), std::move(denominator), 1 - std::pow(options_.beta1, done)};
}

std::vector<NamedTensor> Moments::save() const {
  if (steps_ == 0) return {};
  const auto& parameters = setting_.parameters;
  std::vector<NamedTensor> state{{std::string(steps_name), at::full({1}, steps_, at::kLong)}};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    state.push_back({std::string(first_prefix) + parameters[i].name, first_[i]});
    state.push_back({std::string(second_prefix) + parameters[i].name, second_[i]});
  }
  return state;
}

Result<void> Moments::restore(std::string_view optimizer, std::span<const NamedTensor> state) {
  const auto malformed = [&](const std::string& what) {
    return Error{Errc::malformed, "optimizer " + std::string(optimizer) + ": " + what};
  };
  const auto& parameters = setting_.parameters;
  std::vector<at::Tensor> first(parameters.size());
  std::vector<at::Tensor> second(parameters.size());
  std::int64_t steps = 0;
  if (!state.empty()) {
    const auto count = std::ranges::find(state, steps_name, &NamedTensor::name);
    const bool counted = count != state.end() && count->tensor.scalar_type() == at::kLong && count->tensor.numel() == 1;
    steps = counted ? count->tensor.item<std::int64_t>() : 0;
    if (steps <= 0) return malformed("the state has no number of steps");
    if (state.size() != 1 + 2 * parameters.size()) return malformed("the state is of other parameters");
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto* of_first = saved_of(state, first_prefix, parameters[i]);
      const auto* of_second = saved_of(state, second_prefix, parameters[i]);
      if (of_first == nullptr || of_second == nullptr) {
        return malformed("the state has no moments of '" + parameters[i].name + "' that fit it");
      }
      first[i] = copy_beside(parameters[i].tensor, of_first->tensor);
      second[i] = copy_beside(parameters[i].tensor, of_second->tensor);
    }
  }
  first_ = std::move(first);
  second_ = std::move(second);
  steps_ = steps;
  return {};
}

}  // namespace weir::training
