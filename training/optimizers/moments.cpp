#include "training/optimizers/moments.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
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
      parameters_(tensors_of(setting_.parameters)),
      turns_(turns_of(parameters_, rules_)),
      first_(parameters_.size()),
      second_(parameters_.size()) {}

void Moments::begin_step(std::span<const Mean> means) {
  ensure(means.size() == parameters_.size(), "one mean per parameter");
  ++steps_;
  gradients_ = tensors_of(means);
  if (steps_ > 1) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    first_[i] = at::zeros_like(parameters_[i], at::MemoryFormat::Contiguous);
    second_[i] = at::zeros_like(parameters_[i], at::MemoryFormat::Contiguous);
  }
}

Moments::Direction Moments::add(const Slice& slice, const std::vector<at::Tensor>& gradients) {
  auto first = slice.of(first_);
  const auto second = slice.of(second_);
  at::_foreach_mul_(first, options_.beta1);
  at::_foreach_add_(first, gradients, 1 - options_.beta1);
  at::_foreach_mul_(second, options_.beta2);
  at::_foreach_addcmul_(second, gradients, gradients, 1 - options_.beta2);
  const auto done = static_cast<double>(steps_);
  auto denominators = at::_foreach_sqrt(second);
  at::_foreach_div_(denominators, std::sqrt(1 - std::pow(options_.beta2, done)));
  at::_foreach_add_(denominators, options_.epsilon);
  return {std::move(first), std::move(denominators), 1 - std::pow(options_.beta1, done)};
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
