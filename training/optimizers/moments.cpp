#include "training/optimizers/moments.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errc.hpp"

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

Moments::Moments(const Options& options, std::vector<NamedTensor> parameters)
    : options_(options), parameters_(std::move(parameters)), first_(parameters_.size()), second_(parameters_.size()) {}

Moments::Direction Moments::add(std::size_t parameter, std::int64_t begin, std::int64_t count,
                                const at::Tensor& gradient) {
  if (!first_[parameter].defined()) {
    const at::Tensor& like = parameters_[parameter].tensor;
    first_[parameter] = at::zeros_like(like, at::MemoryFormat::Contiguous);
    second_[parameter] = at::zeros_like(like, at::MemoryFormat::Contiguous);
  }
  auto first = first_[parameter].view({-1}).narrow(0, begin, count);
  auto second = second_[parameter].view({-1}).narrow(0, begin, count);
  first.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
  second.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
  const auto done = static_cast<double>(steps_);
  const double second_divisor = 1 - std::pow(options_.beta2, done);
  auto denominator = second.sqrt().div_(std::sqrt(second_divisor)).add_(options_.epsilon);
  return {std::move(first), std::move(denominator), 1 - std::pow(options_.beta1, done)};
}

std::vector<NamedTensor> Moments::save() const {
  if (steps_ == 0) return {};
  std::vector<NamedTensor> state{{std::string(steps_name), at::full({1}, steps_, at::kLong)}};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state.push_back({std::string(first_prefix) + parameters_[i].name, first_[i]});
    state.push_back({std::string(second_prefix) + parameters_[i].name, second_[i]});
  }
  return state;
}

Result<void> Moments::restore(std::string_view optimizer, std::span<const NamedTensor> state) {
  const auto malformed = [&](const std::string& what) {
    return Error{Errc::malformed, "optimizer " + std::string(optimizer) + ": " + what};
  };
  std::vector<at::Tensor> first(parameters_.size());
  std::vector<at::Tensor> second(parameters_.size());
  std::int64_t steps = 0;
  if (!state.empty()) {
    const auto count = std::ranges::find(state, steps_name, &NamedTensor::name);
    const bool counted = count != state.end() && count->tensor.scalar_type() == at::kLong && count->tensor.numel() == 1;
    steps = counted ? count->tensor.item<std::int64_t>() : 0;
    if (steps <= 0) return malformed("the state has no number of steps");
    if (state.size() != 1 + 2 * parameters_.size()) return malformed("the state is of other parameters");
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto* of_first = saved_of(state, first_prefix, parameters_[i]);
      const auto* of_second = saved_of(state, second_prefix, parameters_[i]);
      if (of_first == nullptr || of_second == nullptr) {
        return malformed("the state has no moments of '" + parameters_[i].name + "' that fit it");
      }
      first[i] = of_first->tensor.clone();
      second[i] = of_second->tensor.clone();
    }
  }
  first_ = std::move(first);
  second_ = std::move(second);
  steps_ = steps;
  return {};
}

}  // namespace weir::training
