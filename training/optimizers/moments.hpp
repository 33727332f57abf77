#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/params.hpp"
#include "training/optimizers/groups.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/optimizers/slices.hpp"

namespace weir::training {

/// What Adam (Kingma and Ba 2015) and its relatives have in common: running means of each parameter's gradients and of
/// their squares,
///
///     m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
///
/// and the walk through the parameters in a step. Both means begin at zero, which 1 - beta^t corrects for after t
/// steps. Every entry moves in every step, also one whose mean gradient is zero because nobody sent it. Part of an
/// optimizer.
class Moments {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;
    bool no_decay = false;  ///< for those that the model spares
    std::vector<ParameterGroup> groups{};
  };

  /// The direction of a step: numerators / denominators / divisor, entry by entry, of some entries of parameters.
  struct Direction {
    std::vector<at::Tensor> numerators;    ///< m; the live ones
    std::vector<at::Tensor> denominators;  ///< sqrt(v / (1 - beta2^t)) + epsilon
    double divisor = 1;                    ///< 1 - beta1^t
  };

  Moments(const Options& options, OptimizerSetting setting);

  /// Begins a step and calls visit(turn, its rule) for one turn after the other. No gradients of what it does are
  /// recorded.
  template <class Visit>
  void step(std::span<const Mean> means, Visit&& visit) {
    const at::NoGradGuard no_grad;
    begin_step(means);
    for (const Turn& turn : turns_) visit(turn, rules_[turn.front()]);
    gradients_.clear();  // their memory serves the next step
  }

  /// In a step: the means of the ranks, by parameter.
  std::span<const at::Tensor> gradients() const { return gradients_; }
  /// The live ones.
  std::span<const at::Tensor> parameters() const { return parameters_; }

  /// Takes the gradients of a slice into its moments. Must be called once for each slice of a step.
  Direction add(const Slice& slice, const std::vector<at::Tensor>& gradients);

  /// Nothing before the first step.
  std::vector<NamedTensor> save() const;
  /// Fails with: malformed (not a state from save() of an optimizer with this name and these parameters).
  Result<void> restore(std::string_view optimizer, std::span<const NamedTensor> state);

 private:
  void begin_step(std::span<const Mean> means);

  Options options_;
  OptimizerSetting setting_;
  std::vector<ParameterRule> rules_;
  std::vector<at::Tensor> parameters_;
  std::vector<Turn> turns_;
  std::vector<at::Tensor> gradients_;  ///< of the step
  std::int64_t steps_ = 0;
  std::vector<at::Tensor> first_;   ///< undefined until a parameter's first step
  std::vector<at::Tensor> second_;  ///< as first_
};

/// The parameters of an optimizer whose options are a rate, `lr`, and a Moments::Options, `moments`.
template <class Options>
protocol::Params<Options> moments_params() {
  return protocol::Params<Options>()
      .number("lr", &Options::lr, {.exclusive_minimum = 0}, "learning rate")
      .number(
          "beta1", [](Options& options) -> double& { return options.moments.beta1; },
          {.minimum = 0, .exclusive_maximum = 1}, "Of the running mean of gradients.")
      .number(
          "beta2", [](Options& options) -> double& { return options.moments.beta2; },
          {.minimum = 0, .exclusive_maximum = 1}, "Of the running mean of their squares.")
      .number(
          "epsilon", [](Options& options) -> double& { return options.moments.epsilon; }, {.exclusive_minimum = 0}, "")
      .number(
          "weight_decay", [](Options& options) -> double& { return options.moments.weight_decay; }, {.minimum = 0}, "")
      .flag(
          "no_decay", [](Options& options) -> bool& { return options.moments.no_decay; }, no_decay_means)
      .objects(
          "groups", [](Options& options) -> std::vector<ParameterGroup>& { return options.moments.groups; },
          ParameterGroup::params(), groups_max, groups_mean);
}

}  // namespace weir::training
