#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/params.hpp"
#include "training/optimizers/optimizer.hpp"

namespace weir::training {

/// The running means of a parameter's gradients and of their squares, which Adam (Kingma and Ba 2015) and its relatives
/// keep:
///
///     m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
///
/// Both begin at zero, which 1 - beta^t corrects for after t steps. Every entry moves in every step, also one whose
/// mean gradient is zero because nobody sent it. Part of an optimizer.
class Moments {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
  };

  /// The direction of a step: numerator / denominator / divisor, entry by entry.
  struct Direction {
    at::Tensor numerator;    ///< m; the live one
    at::Tensor denominator;  ///< sqrt(v / (1 - beta2^t)) + epsilon
    double divisor = 1;      ///< 1 - beta1^t
  };

  Moments(const Options& options, std::vector<NamedTensor> parameters);

  /// Must be called at the beginning of a step.
  void begin_step() { ++steps_; }

  /// Takes the gradient of `count` entries of a parameter, from entry `begin` on. Each entry once in a step.
  Direction add(std::size_t parameter, std::int64_t begin, std::int64_t count, const at::Tensor& gradient);

  /// Nothing before the first step.
  std::vector<NamedTensor> save() const;
  /// Fails with: malformed (not a state from save() of an optimizer with this name and these parameters).
  Result<void> restore(std::string_view optimizer, std::span<const NamedTensor> state);

 private:
  Options options_;
  std::vector<NamedTensor> parameters_;
  std::int64_t steps_ = 0;
  std::vector<at::Tensor> first_;   ///< undefined until a parameter's first step
  std::vector<at::Tensor> second_;  ///< as first_
};

/// The parameters of an optimizer whose options have a Moments::Options `moments`, a `weight_decay` and a `no_decay`.
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
      .number("weight_decay", &Options::weight_decay, {.minimum = 0}, "")
      .flag("no_decay", &Options::no_decay, no_decay_means);
}

}  // namespace weir::training
